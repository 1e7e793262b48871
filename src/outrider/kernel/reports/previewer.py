"""The previewer: what one recipient would read, and what would become of everybody, if sent now."""

from collections.abc import Sequence
from typing import NamedTuple

from outrider.domain.campaigns import LAUNCH, Message
from outrider.domain.errors import InvalidInput, NotFound
from outrider.domain.ids import CampaignId, JobId, RunId, Scope
from outrider.domain.recipients import AddressKind, address_kind, screen
from outrider.domain.states import Channel, RunStatus
from outrider.domain.unsubscribe import shows_link, with_link
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.reports.launch_rehearser import (
    PREVIEWED_ADDRESS,
    LaunchRehearsal,
    LaunchRehearser,
    LeftOver,
    Variables,
)
from outrider.kernel.transactions import accountings, campaigns, run_records
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.run_records import RunRecord
from outrider.limits.campaigns import CREATION_COMPARED_MAX
from outrider.ports.renderer import Renderer, RenderProblem
from outrider.ports.store import Rows, Store, Transaction, ask


class _Reader(NamedTuple):
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


class _Forecast(NamedTuple):
    """How many a message would go to, and how many would be skipped, by reason."""

    message: Message
    would_send: int
    skipped: dict[str, int]


class _Counted(NamedTuple):
    """What a dry run knows before anything is rendered; `left` only where it is for those who
    were left over."""

    rerun_scope: str
    audience_size: int
    forecasts: list[_Forecast]
    sent: int
    left: list[tuple[LeftOver, Message]] | None


class Previewer:
    def __init__(
        self, store: Store, renderer: Renderer, unsubscriber: Unsubscriber, variables: Variables
    ) -> None:
        self._rehearser = LaunchRehearser(store, renderer, unsubscriber, variables)
        self._store = store
        self._renderer = renderer
        self._unsubscriber = unsubscriber

    async def preview(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        recipient_id: str | None = None,
        message_id: str | None = None,
    ) -> dict[str, object]:
        message, reader = await self._store.read(
            self._chosen(scope, campaign_id, recipient_id, message_id)
        )
        kind = address_kind(message.channel)
        address = reader.address(kind)
        attributes = await self._attributes(scope, message, reader)
        (text,) = await self._renderer.render(
            scope, message.subject, message.body, [attributes], html=message.is_html
        )
        failed = isinstance(text, RenderProblem)
        return {
            "campaignId": campaign_id,
            "messageId": message.id,
            "channel": message.channel.value,
            "recipientId": reader.recipient_id,
            "address": address,
            "subject": None if isinstance(text, RenderProblem) else text.subject,
            "body": None if isinstance(text, RenderProblem) else text.body,
            "html": message.is_html,
            "problem": text.detail if isinstance(text, RenderProblem) else None,
            "skippedBecause": None
            if failed
            else screen(kind, address, reader.invalid, reader.duplicate),
        }

    async def _attributes(self, scope: Scope, message: Message, reader: _Reader) -> str:
        if message.channel is Channel.EMAIL and shows_link(message.subject, message.body):
            # Whoever may look must not be able to opt somebody out.
            url = await self._unsubscriber.url_of(
                scope, message.channel, PREVIEWED_ADDRESS, message.purpose.topic
            )
            if url is not None:
                return with_link(reader.attributes, url)
        return reader.attributes

    def _chosen(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        recipient_id: str | None,
        message_id: str | None,
    ) -> Transaction[tuple[Message, _Reader]]:
        record = yield from campaigns.campaign(scope, campaign_id)
        messages = {each.id: each for each in campaigns.read_definition(record.definition).messages}
        message = messages.get(message_id) if message_id else next(iter(messages.values()))
        if message is None:
            raise NotFound(
                f"the campaign has no message '{message_id}'",
                hint=f"its messages are {', '.join(messages)}",
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
        return message, _Reader(*rows[0])

    async def dry_run(
        self, scope: Scope, campaign_id: CampaignId, rerun_scope: str | None = None
    ) -> dict[str, object]:
        """Numbers by message, with who would fail and why; nothing is written, nobody called."""
        counted = await self._store.read(self._counted(scope, campaign_id, rerun_scope))
        if counted.left is None:
            messages = [each.message for each in counted.forecasts]
            rehearsal = await self._rehearser.everybody(
                scope, campaign_id, messages, counted.audience_size
            )
        else:
            rehearsal = await self._rehearser.left_over(scope, campaign_id, counted.left)
        return _dry_run_document(campaign_id, counted, rehearsal)

    async def warnings(
        self, campaign_id: CampaignId, messages: Sequence[Message], size: int
    ) -> list[str]:
        """Where a new campaign's templates and its recipients' columns do not fit together."""
        return await self._rehearser.warnings(campaign_id, messages, size, CREATION_COMPARED_MAX)

    def _counted(
        self, scope: Scope, campaign_id: CampaignId, rerun_scope: str | None
    ) -> Transaction["_Counted"]:
        record = yield from campaigns.campaign(scope, campaign_id)
        last = yield from self._last_launch(campaign_id)
        if rerun_scope is None:
            partial = last is not None and last.status in (RunStatus.PARTIAL, RunStatus.FAILED)
            rerun_scope = "remainder" if partial else "all"
        left = (yield from self._left_over(last)) if rerun_scope == "remainder" else None
        forecasts: list[_Forecast] = []
        jobs: list[tuple[LeftOver, Message]] = []
        for asset in (yield from campaigns.assets_of(campaign_id)):
            if left is not None:
                of_asset = [each for each in left if each[1] == asset.id]
                would_send = sum(count for _, _, count in of_asset)
                forecasts.append(_Forecast(asset.message, would_send, {}))
                jobs += [(job, asset.message) for job, _, _ in of_asset]
            else:
                screened = yield from self._screened(scope, campaign_id, asset.message)
                forecasts.append(_Forecast(asset.message, *screened))
        sent = 0
        while last is not None:
            sent += (yield from accountings.accounting(last)).sent
            retried = last.retry_of
            last = (yield from run_records.run_anywhere(RunId(retried))) if retried else None
        return _Counted(
            rerun_scope, record.audience_size, forecasts, sent, None if left is None else jobs
        )

    def _last_launch(self, campaign_id: CampaignId) -> Transaction[RunRecord | None]:
        for phase in (yield from campaigns.phases_of(campaign_id)):
            if phase.phase == LAUNCH and phase.run_id is not None:
                return (yield from run_records.run_anywhere(RunId(phase.run_id)))
        return None

    def _left_over(self, last: RunRecord | None) -> Transaction[list[tuple[LeftOver, str, int]]]:
        """What the last launch left: the jobs, each with its asset and how many items."""
        if last is None:
            return []
        rows = yield from ask("count_remainder", previous_run_id=last.id, run_id=FIRST)
        return [
            (LeftOver(RunId(last.id), JobId(job_id)), asset_id, count)
            for job_id, asset_id, _, _, count in rows
        ]

    def _screened(
        self, scope: Scope, campaign_id: CampaignId, message: Message
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
            # A post goes out once, whoever is in the audience.
            return min(would_send, 1), {}
        return would_send, counts


def _dry_run_document(
    campaign_id: CampaignId, counted: _Counted, rehearsal: LaunchRehearsal
) -> dict[str, object]:
    failed = rehearsal.failed
    messages = [
        {
            "messageId": each.message.id,
            "channel": each.message.channel.value,
            "wouldSend": each.would_send - failed.get(each.message.id, 0),
            "wouldFail": failed.get(each.message.id, 0),
            "skipped": each.skipped,
        }
        for each in counted.forecasts
    ]
    return {
        "campaignId": campaign_id,
        "scope": counted.rerun_scope,
        "messages": messages,
        "wouldSend": sum(each.would_send for each in counted.forecasts) - sum(failed.values()),
        "wouldFail": sum(failed.values()),
        "failures": [
            {
                "messageId": each.message_id,
                "reason": each.reason,
                "detail": each.detail,
                "recipients": each.recipients,
                "examples": each.examples,
            }
            for each in rehearsal.failures.values()
        ],
        "rendered": rehearsal.rendered,
        "skipped": _summed([each.skipped for each in counted.forecasts]),
        "alreadySent": counted.sent,
    }


def _summed(parts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for reason, count in part.items():
            total[reason] = total.get(reason, 0) + count
    return total
