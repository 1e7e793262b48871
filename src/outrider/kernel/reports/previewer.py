"""The previewer: what one recipient would read, and what would happen to all of them, if sent
now."""

from collections.abc import Sequence

from outrider.domain.campaigns import Message
from outrider.domain.ids import CampaignId, Scope
from outrider.domain.recipients import address_kind, screen
from outrider.domain.rollouts import shares
from outrider.domain.states import Channel
from outrider.domain.unsubscribe import shows_link, with_link
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.reports.launch_rehearser import (
    PREVIEWED_ADDRESS,
    LaunchRehearsal,
    LaunchRehearser,
    Variables,
)
from outrider.kernel.transactions import previews
from outrider.kernel.transactions.previews import Counted, Reader
from outrider.limits.campaigns import CREATION_COMPARED_MAX
from outrider.ports.renderer import Renderer, RenderProblem
from outrider.ports.store import Store


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
        variant: str | None = None,
    ) -> dict[str, object]:
        message, reader = await self._store.read(
            previews.chosen(scope, campaign_id, recipient_id, message_id, variant)
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
            "variant": message.variant,
            "channel": message.channel.value,
            "recipientId": reader.recipient_id,
            "address": address,
            "from": message.head.sender,
            "replyTo": message.head.reply_to,
            "subject": None if isinstance(text, RenderProblem) else text.subject,
            "body": None if isinstance(text, RenderProblem) else text.body,
            "html": message.is_html,
            "problem": text.detail if isinstance(text, RenderProblem) else None,
            "skippedBecause": None
            if failed
            else screen(kind, address, reader.invalid, reader.duplicate),
        }

    async def _attributes(self, scope: Scope, message: Message, reader: Reader) -> str:
        if message.channel is Channel.EMAIL and shows_link(message.subject, message.body):
            # A read-only user must not be able to opt anyone out.
            url = await self._unsubscriber.url_of(
                scope, message.channel, PREVIEWED_ADDRESS, message.purpose.topic
            )
            if url is not None:
                return with_link(reader.attributes, url)
        return reader.attributes

    async def dry_run(
        self, scope: Scope, campaign_id: CampaignId, rerun_scope: str | None = None
    ) -> dict[str, object]:
        """Counts by message, with who would fail and why; nothing is written or called."""
        counted = await self._store.read(previews.counted(scope, campaign_id, rerun_scope))
        if counted.left is None:
            messages = [text for each in counted.forecasts for text in each.message.texts]
            rehearsal = await self._rehearser.whole_audience(
                scope, campaign_id, messages, counted.audience_size
            )
        else:
            rehearsal = await self._rehearser.left_over(scope, campaign_id, counted.left)
        return _dry_run_document(campaign_id, counted, rehearsal)

    async def warnings(
        self, campaign_id: CampaignId, messages: Sequence[Message], size: int
    ) -> list[str]:
        """Mismatches between a new campaign's templates and its recipients' columns."""
        return await self._rehearser.warnings(campaign_id, messages, size, CREATION_COMPARED_MAX)


def _dry_run_document(
    campaign_id: CampaignId, counted: Counted, rehearsal: LaunchRehearsal
) -> dict[str, object]:
    messages = [
        {
            "messageId": each.message.id,
            "variant": each.message.variant,
            "channel": each.message.channel.value,
            "wouldSend": each.would_send - rehearsal.failed_of(each.message),
            "wouldFail": rehearsal.failed_of(each.message),
            "skipped": each.skipped,
        }
        for each in counted.forecasts
    ]
    failed = sum(rehearsal.failed_of(each.message) for each in counted.forecasts)
    return {
        "campaignId": campaign_id,
        "scope": counted.rerun_scope,
        "messages": messages,
        "wouldSend": sum(each.would_send for each in counted.forecasts) - failed,
        "wouldFail": failed,
        "failures": [
            {
                "messageId": each.message_id,
                "variant": each.variant,
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
        "rollout": _rollout(counted),
    }


def _rollout(counted: Counted) -> list[dict[str, object]]:
    """How many recipients each step has, screened or not. What is left over keeps the steps that
    it had."""
    if counted.left is not None:
        return []
    members = {each.step: each.members for each in shares(counted.rollout, counted.audience_size)}
    return [
        {"step": number, **step.as_document(), "recipients": members.get(number, 0)}
        for number, step in enumerate(counted.rollout, start=1)
    ]


def _summed(parts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for reason, count in part.items():
            total[reason] = total.get(reason, 0) + count
    return total
