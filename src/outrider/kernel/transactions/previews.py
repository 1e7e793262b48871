"""What previews and dry runs read: one recipient, who passes the screens, and the remainder."""

from collections.abc import Sequence
from typing import NamedTuple

from outrider.domain.campaigns import LAUNCH, Message
from outrider.domain.errors import InvalidInput, NotFound
from outrider.domain.ids import CampaignId, JobId, RunId, Scope
from outrider.domain.recipients import AddressKind, address_kind
from outrider.domain.rollouts import RolloutStep
from outrider.domain.states import Channel, RunStatus
from outrider.kernel.transactions import accountings, campaigns, run_records
from outrider.kernel.transactions.ledger import Member
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.run_records import RunRecord
from outrider.ports.store import Rows, Transaction, ask


class Reader(NamedTuple):
    """The member of the audience that a preview is for."""

    recipient_id: str
    email: str | None
    phone: str | None
    push_token: str | None
    attributes: str
    invalid: int
    duplicate: int

    def address(self, kind: AddressKind) -> str | None:
        addresses = {
            AddressKind.EMAIL: self.email,
            AddressKind.PHONE: self.phone,
            AddressKind.PUSH_TOKEN: self.push_token,
        }
        return addresses.get(kind)


class LeftOver(NamedTuple):
    """A job of the last launch, some of whose items would be retried."""

    run_id: RunId
    job_id: JobId


class Forecast(NamedTuple):
    """How many recipients a message would go to, and how many would be skipped, by reason."""

    message: Message
    would_send: int
    skipped: dict[str, int]


class Counted(NamedTuple):
    """What a dry run knows before rendering; `left` is set only for a rerun of those not reached
    yet."""

    rerun_scope: str
    audience_size: int
    forecasts: list[Forecast]
    sent: int
    left: list[tuple[LeftOver, Message]] | None
    rollout: Sequence[RolloutStep] = ()


def chosen(
    scope: Scope,
    campaign_id: CampaignId,
    recipient_id: str | None,
    message_id: str | None,
    variant: str | None = None,
) -> Transaction[tuple[Message, Reader]]:
    """The message, or a variant of it, and its reader: by default the first of each."""
    record = yield from campaigns.campaign(scope, campaign_id)
    messages = {each.id: each for each in campaigns.read_definition(record.definition).messages}
    message = messages.get(message_id) if message_id else next(iter(messages.values()))
    if message is None:
        raise NotFound(
            f"the campaign has no message '{message_id}'",
            hint=f"its messages are {', '.join(messages)}",
        )
    texts = {text.variant: text for text in message.texts}
    text = texts.get(variant) if variant else message.texts[0]
    if text is None:
        raise NotFound(
            f"the message '{message.id}' has no variant '{variant}'",
            hint=f"its variants are {', '.join(each or '' for each in texts) or 'none'}",
        )
    rows: Rows
    if recipient_id is None:
        rows = yield from ask("first_member", campaign_id=campaign_id)
    else:
        rows = yield from ask(
            "member_for_preview", campaign_id=campaign_id, recipient_id=recipient_id
        )
    if not rows and recipient_id is not None:
        raise NotFound(f"the campaign has no recipient '{recipient_id}'")
    if not rows:
        raise InvalidInput(
            "the campaign has no recipients yet",
            hint="add some, and complete its audience_import if it has one",
        )
    return text, Reader(*rows[0])


def counted(scope: Scope, campaign_id: CampaignId, rerun_scope: str | None) -> Transaction[Counted]:
    record = yield from campaigns.campaign(scope, campaign_id)
    last = yield from _last_launch(campaign_id)
    if rerun_scope is None:
        partial = last is not None and last.status in (RunStatus.PARTIAL, RunStatus.FAILED)
        rerun_scope = "remainder" if partial else "all"
    left = (yield from _left_over(last)) if rerun_scope == "remainder" else None
    forecasts: list[Forecast] = []
    jobs: list[tuple[LeftOver, Message]] = []
    definition = campaigns.read_definition(record.definition)
    if left is not None:
        for asset in (yield from campaigns.assets_of(campaign_id)):
            of_asset = [each for each in left if each[1] == asset.id]
            would_send = sum(count for _, _, count in of_asset)
            forecasts.append(Forecast(asset.message, would_send, {}))
            jobs += [(job, asset.message) for job, _, _ in of_asset]
    else:
        for message in definition.messages:
            screened = yield from _screened(scope, campaign_id, message)
            forecasts.append(Forecast(message, *screened))
    sent = 0
    while last is not None:
        sent += (yield from accountings.accounting(last)).sent
        retried = last.retry_of
        last = (yield from run_records.run_anywhere(RunId(retried))) if retried else None
    return Counted(
        rerun_scope, record.audience_size, forecasts, sent, None if left is None else jobs,
        definition.rollout,
    )  # fmt: skip


def _last_launch(campaign_id: CampaignId) -> Transaction[RunRecord | None]:
    for phase in (yield from campaigns.phases_of(campaign_id)):
        if phase.phase == LAUNCH and phase.run_id is not None:
            return (yield from run_records.run_anywhere(RunId(phase.run_id)))
    return None


def _left_over(last: RunRecord | None) -> Transaction[list[tuple[LeftOver, str, int]]]:
    """What the last launch left over: the jobs, each with its asset and item count."""
    if last is None:
        return []
    rows = yield from ask("count_remainder", previous_run_id=last.id, run_id=FIRST)
    return [
        (LeftOver(RunId(last.id), JobId(job_id)), asset_id, count)
        for job_id, asset_id, _, _, count, *_ in rows
    ]


def _screened(
    scope: Scope, campaign_id: CampaignId, message: Message
) -> Transaction[tuple[int, dict[str, int]]]:
    rows = yield from ask(
        "count_screened",
        **scope._asdict(),
        campaign_id=campaign_id,
        kind=int(address_kind(message.channel)),
        channel=message.channel.value,
        message_id=message.id,
        topic=message.purpose.topic,
        transactional=message.purpose.transactional,
    )
    counts = {row[0]: row[1] for row in rows}
    would_send = counts.pop(None, 0)
    if message.channel is Channel.SOCIAL:
        # A post goes out once, whatever the audience is.
        return min(would_send, 1), {}
    return would_send, counts


def members(
    campaign_id: CampaignId, message: Message, first: int, last: int
) -> Transaction[list[Member]]:
    """The members at these positions of the audience who get this message."""
    rows = yield from ask(
        "load_members",
        campaign_id=campaign_id,
        kind=int(address_kind(message.channel)),
        first_position=first,
        last_position=last,
        message_id=message.id,
    )
    return [Member(*row) for row in rows]


def left_members(
    campaign_id: CampaignId, message: Message, job: LeftOver
) -> Transaction[list[Member]]:
    """The members of a job who were left over."""
    rows = yield from ask(
        "load_remainder",
        campaign_id=campaign_id,
        kind=int(address_kind(message.channel)),
        previous_run_id=job.run_id,
        previous_job_id=job.job_id,
        run_id=FIRST,
    )
    return [Member(*row) for row in rows]
