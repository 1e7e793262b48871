"""The drafter: screens and renders a window of members into drafts of ledger rows.

A draft is either to be called, or terminal with its reason; nothing is left out.
"""

from collections.abc import Sequence

from outrider.domain.ids import IdempotencyKey, OutboxId, idempotency_key, item_key_fields
from outrider.domain.recipients import address_kind, screen
from outrider.domain.states import ItemStatus
from outrider.domain.times import rfc3339
from outrider.kernel.transactions.ledger import Draft, JobContext, Member
from outrider.ports.clock import IdSource
from outrider.ports.renderer import Rendered, Renderer, RenderProblem
from outrider.ports.stages import Stage, StageObserver, observed

RENDER_FAILED = "render_failed"
INVALID_HEADER = "invalid_header"


class Drafter:
    def __init__(self, renderer: Renderer, ids: IdSource, observer: StageObserver) -> None:
        self._renderer = renderer
        self._ids = ids
        self._observer = observer

    async def draft(self, context: JobContext, members: Sequence[Member]) -> list[Draft]:
        """One draft for each member, in order: to be called, or terminal with its reason."""
        message = context.asset.message
        kind = address_kind(message.channel)
        with observed(self._observer, Stage.SCREEN):
            reasons = [
                screen(kind, member.address, member.invalid, member.duplicate) for member in members
            ]
        with observed(self._observer, Stage.RENDER):
            texts = iter(
                await self._renderer.render(
                    message.subject,
                    message.body,
                    [
                        m.attributes
                        for m, reason in zip(members, reasons, strict=True)
                        if not reason
                    ],
                    html=message.is_html,
                )
            )
        drafts = []
        keys = self._keys(context, members)
        outbox_ids = self._ids.batch(len(members))
        for member, reason, key, outbox_id in zip(members, reasons, keys, outbox_ids, strict=True):
            if reason is not None:
                draft = _drop(outbox_id, member, key, ItemStatus.SKIPPED, reason)
            else:
                draft = _compose(outbox_id, member, key, next(texts))
            drafts.append(draft)
        return drafts

    def _keys(self, context: JobContext, members: Sequence[Member]) -> list[IdempotencyKey]:
        message, asset_id = context.asset.message, context.asset.id
        run_id, scheduled_for = context.job.run_id, rfc3339(context.job.scheduled_for)
        return [
            idempotency_key(
                run_id,
                *item_key_fields(
                    message.channel, member.recipient_id, asset_id, message.script_version
                ),
                scheduled_for,
            )
            for member in members
        ]

    def give_up(
        self, context: JobContext, members: Sequence[Member], status: ItemStatus, reason: str
    ) -> list[Draft]:
        """Drafts that only record an ending: nothing is rendered, nothing will be called."""
        keys = self._keys(context, members)
        outbox_ids = self._ids.batch(len(members))
        return [
            _drop(outbox_id, member, key, status, reason)
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
    outbox_id: str, member: Member, key: IdempotencyKey, text: Rendered | RenderProblem
) -> Draft:
    if isinstance(text, RenderProblem):
        draft = _drop(outbox_id, member, key, ItemStatus.FAILED, RENDER_FAILED)
        return draft._replace(error=text.detail)
    subject = text.subject
    if subject is not None and not subject.isprintable():
        # A line break in a header would add headers, or recipients, of a stranger's choosing.
        draft = _drop(outbox_id, member, key, ItemStatus.FAILED, INVALID_HEADER)
        return draft._replace(error="the rendered subject holds a control character")
    return Draft(
        OutboxId(outbox_id), member.recipient_id, member.address, subject, text.body, key,
        ItemStatus.QUEUED, None, None,
    )  # fmt: skip
