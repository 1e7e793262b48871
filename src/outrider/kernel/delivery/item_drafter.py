"""The item drafter: screens and renders a window of members into drafts of ledger rows.

A draft is either to be called, or terminal with its reason; no member is omitted.
"""

from collections.abc import Sequence
from itertools import repeat

from outrider.domain.ids import IdempotencyKey, OutboxId, item_keys
from outrider.domain.recipients import SkipReason, address_kind, screen
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.texts import breaks_header
from outrider.domain.times import rfc3339
from outrider.domain.unsubscribe import shows_link, with_link
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.transactions.ledger import JobContext, Member
from outrider.kernel.transactions.reserving import Draft
from outrider.ports.clock import IdSource
from outrider.ports.renderer import Rendered, Renderer, RenderProblem
from outrider.ports.stages import Stage, StageObserver, observed

RENDER_FAILED = "render_failed"
INVALID_HEADER = "invalid_header"


class ItemDrafter:
    def __init__(
        self,
        renderer: Renderer,
        ids: IdSource,
        observer: StageObserver,
        unsubscriber: Unsubscriber,
    ) -> None:
        self._renderer = renderer
        self._ids = ids
        self._observer = observer
        self._unsubscriber = unsubscriber

    async def draft(self, context: JobContext, members: Sequence[Member]) -> list[Draft]:
        """One draft for each member, in order: to be called, or terminal with its reason."""
        message = context.asset.message
        kind = address_kind(message.channel)
        with observed(self._observer, Stage.SCREEN):
            reasons = [
                screen(kind, member.address, member.invalid, member.duplicate) for member in members
            ]
        if context.job.retry_job_id is not None:
            reasons = [
                SkipReason.ACCEPTED_LATE if member.accepted_late else reason
                for member, reason in zip(members, reasons, strict=True)
            ]
        kept = [m for m, reason in zip(members, reasons, strict=True) if not reason]
        links = await self._links(context, kept)
        attributes = [member.attributes for member in kept]
        if links and shows_link(message.subject, message.body):
            attributes = [with_link(*each) for each in zip(attributes, links, strict=True)]
        with observed(self._observer, Stage.RENDER):
            texts = await self._renderer.render(
                context.job.scope, message.subject, message.body, attributes, html=message.is_html
            )
        # Unsubscribing has no effect on transactional messages.
        headers = links if links and not message.purpose.transactional else repeat(None, len(kept))
        composed = zip(texts, headers, strict=True)
        drafts = []
        keys = self._keys(context, members)
        outbox_ids = self._ids.batch(len(members))
        html = message.is_html
        for member, reason, key, outbox_id in zip(members, reasons, keys, outbox_ids, strict=True):
            if reason is not None:
                draft = _drop(outbox_id, member, key, ItemStatus.SKIPPED, reason)
            else:
                draft = _compose(outbox_id, member, key, *next(composed), html=html)
                draft = draft._replace(head=message.head)
            drafts.append(draft)
        return drafts

    async def _links(self, context: JobContext, members: Sequence[Member]) -> list[str] | None:
        """Each member's unsubscribe link; None if it is not an e-mail, or no public URL is
        configured."""
        channel = context.asset.message.channel
        if channel is not Channel.EMAIL:
            return None
        urls = await self._unsubscriber.urls()
        if urls is None:
            return None
        scope, topic = context.job.scope, context.asset.message.purpose.topic
        return [urls.url_of(scope, channel, member.address or "", topic) for member in members]

    def _keys(self, context: JobContext, members: Sequence[Member]) -> list[IdempotencyKey]:
        message, job = context.asset.message, context.job
        return item_keys(
            message.channel,
            job.run_id,
            [member.recipient_id for member in members],
            context.asset.id,
            message.submission_target,
            message.script_version,
            rfc3339(job.scheduled_for),
        )

    def give_up(
        self, context: JobContext, members: Sequence[Member], status: ItemStatus, reason: str
    ) -> list[Draft]:
        """Drafts that only record an outcome: nothing is rendered or called. A member accepted late
        gets that outcome, otherwise the next retry would send to them."""
        keys = self._keys(context, members)
        outbox_ids = self._ids.batch(len(members))
        return [
            _drop(outbox_id, member, key, ItemStatus.SKIPPED, SkipReason.ACCEPTED_LATE)
            if member.accepted_late
            else _drop(outbox_id, member, key, status, reason)
            for member, key, outbox_id in zip(members, keys, outbox_ids, strict=True)
        ]


def _drop(
    outbox_id: str, member: Member, key: IdempotencyKey, status: ItemStatus, reason: str
) -> Draft:
    return Draft(
        OutboxId(outbox_id),
        member.recipient_id,
        member.address,
        None,
        "",
        key,
        status,
        reason,
        None,
    )


def _compose(
    outbox_id: str,
    member: Member,
    key: IdempotencyKey,
    text: Rendered | RenderProblem,
    unsubscribe_url: str | None,
    *,
    html: bool,
) -> Draft:
    if isinstance(text, RenderProblem):
        draft = _drop(outbox_id, member, key, ItemStatus.FAILED, RENDER_FAILED)
        return draft._replace(error=text.detail)
    subject = text.subject
    if subject is not None and breaks_header(subject):
        draft = _drop(outbox_id, member, key, ItemStatus.FAILED, INVALID_HEADER)
        return draft._replace(error="the rendered subject contains a control character")
    return Draft(
        OutboxId(outbox_id), member.recipient_id, member.address, subject, text.body, key,
        ItemStatus.QUEUED, None, None, unsubscribe_url=unsubscribe_url, html=html,
    )  # fmt: skip
