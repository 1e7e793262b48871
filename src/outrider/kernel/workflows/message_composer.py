"""The message composer: turns an event's routes into messages, rendered and addressed.

Orders come from enabled steps and from legacy senders; they are rendered in windows, grouped by
template, into ledger rows. A rule is enqueued whole or not at all.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from outrider.domain.addressees import Addressee, address_key, addressed
from outrider.domain.ids import IdempotencyKey, OutboxId, RecipientId, Scope, idempotency_key
from outrider.domain.markup import is_html
from outrider.domain.message_content import Attachment, MessageContent
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.recipients import address_kind
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.submission import Contract
from outrider.domain.texts import breaks_header
from outrider.domain.unsubscribe import UnsubscribeUrls
from outrider.domain.workflows import (
    STEP_DELAY,
    STEP_PASSED,
    DomainEvent,
    DueTimePassed,
    NoDueTime,
    Rule,
    StepId,
    WorkflowStep,
    channel_kind,
    due_time,
    in_order,
)
from outrider.kernel.transactions.digests import DigestEntry
from outrider.kernel.transactions.notifications import NewNotification
from outrider.kernel.workflows.step_targets import StepTargets
from outrider.limits.campaigns import LANES_PER_TARGET
from outrider.limits.workflows import EVENT_TEXTS_MAX_BYTES
from outrider.ports.clock import IdSource
from outrider.ports.legacy import Composition, LegacySender
from outrider.ports.renderer import Rendered, Renderer, RenderProblem

AT_ONCE = timedelta(milliseconds=1)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
TOO_MUCH = RenderProblem(f"the event's messages have more than {EVENT_TEXTS_MAX_BYTES:,} bytes")
SPOILT = RenderProblem("another step of its rule could not be rendered")
NOTHING = msgspec.json.encode(MessageContent(None, "").as_document()).decode()
PERSONAL = ("recipient", "unsubscribeUrl")
"""What makes a text differ for each recipient."""


@dataclass(frozen=True, slots=True)
class MessageOrder:
    """One message to everyone that one step, or one legacy sender, addresses."""

    scope: Scope
    event: DomainEvent
    origin: str
    """The common part of the items' keys: the step's id, or the sender's name."""
    kind: str
    template: str
    channel: Channel
    contract: Contract
    route: str
    """Identifies its rule or sender: orders of one route fail together."""
    subject: str | None
    body: str
    to: Sequence[Addressee]
    due_at: datetime
    waits_for: str | None = None
    skip: str | None = None
    urgent: bool = False
    step_id: StepId | None = None
    attachments: Sequence[Attachment] = ()
    variables: Mapping[str, object] = field(default_factory=dict)
    purpose: Purpose = UNSTATED
    without_address: Sequence[RecipientId] = ()
    """Intended parties without an address on its channel."""

    @property
    def is_html(self) -> bool:
        return self.channel is Channel.EMAIL and is_html(self.body)

    @property
    def is_personal(self) -> bool:
        return any(name in text for name in PERSONAL for text in (self.subject or "", self.body))

    @property
    def written_to(self) -> list[Addressee]:
        return [] if self.skip else [each for each in self.to if each.skip is None]

    @property
    def texts(self) -> int:
        """How often it is rendered."""
        people = len(self.written_to)
        return people if self.is_personal else min(people, 1)


class MessageComposer:
    def __init__(
        self,
        renderer: Renderer,
        targets: StepTargets,
        fallback_of: Callable[[str], str | None],
        ids: IdSource,
    ) -> None:
        self._renderer = renderer
        self._targets = targets
        self._fallback_of = fallback_of
        self._ids = ids

    def orders(
        self,
        scope: Scope,
        event: DomainEvent,
        rule: Rule,
        steps: Iterable[WorkflowStep],
        now: datetime,
    ) -> tuple[list[MessageOrder], list[DigestEntry]] | str:
        """What an enabled rule enqueues, in step order; or why it cannot be enqueued."""
        orders: list[MessageOrder] = []
        entries: list[DigestEntry] = []
        for place, step in enumerate(in_order(steps)):
            contract = self._targets.find(step.channel, step.submission_target)
            if isinstance(contract, str):
                return f"step {step.step_order}: {contract}"
            due = due_time(step.timing, event, now)
            if isinstance(due, NoDueTime):
                return f"step {step.step_order}: {due.problem}"
            to, absent = addressed(step.recipients, step.channel, event)
            if step.digest_seconds is not None and not isinstance(due, DueTimePassed):
                entries += _entries(event, rule, step, step.digest_seconds, to)
                to = [each for each in to if each.skip is not None]
            kind, template = channel_kind(step.channel)
            passed = isinstance(due, DueTimePassed)
            due_at = now if isinstance(due, DueTimePassed) else due
            if due_at <= LAST_MOMENT:
                # Steps that are due together are also delivered in their order.
                due_at += timedelta(microseconds=place)
            orders.append(
                MessageOrder(
                    scope, event, step.id, kind, template, step.channel, contract, rule.id,
                    step.subject, step.body, to, due_at,
                    STEP_DELAY if due_at > now + AT_ONCE else None,
                    STEP_PASSED if passed else None, rule.urgent, step.id,
                    purpose=step.purpose_in(rule.purpose), without_address=absent,
                )
            )  # fmt: skip
        return orders, entries

    def legacy_order(
        self, scope: Scope, event: DomainEvent, sender: LegacySender, now: datetime
    ) -> MessageOrder | str:
        composed = sender.compose(event)
        if isinstance(composed, str):
            return f"{sender.name}: {composed}"
        channel = sender.place.channel
        contract = self._targets.find(channel, None)
        if isinstance(contract, str):
            return f"{sender.name}: {contract}"
        _refuse_odd(composed)
        kind, _ = channel_kind(channel)
        to, absent = addressed(composed.recipients, channel, event)
        return MessageOrder(
            scope, event, f"legacy:{sender.name}", kind, sender.name, channel, contract,
            sender.name, composed.subject, composed.body, to, now, attachments=composed.attachments,
            variables=composed.variables or {}, without_address=absent,
        )  # fmt: skip

    async def render(
        self, orders: Sequence[MessageOrder], urls: UnsubscribeUrls | None
    ) -> list[list[NewNotification] | str]:
        """For each order its prepared rows, or what is wrong with its template."""
        asked: dict[tuple[Scope, str | None, str, bool], list[tuple[int, str]]] = {}
        for index, order in enumerate(orders):
            template = order.scope, order.subject, order.body, order.is_html
            texts = asked.setdefault(template, [])
            texts += [(index, text) for text in self._attributes(order, urls)]
        rendered: list[list[Rendered | RenderProblem]] = [[] for _ in orders]
        sizes: dict[str, int] = {}
        spoilt: set[tuple[str, str]] = set()
        for (scope, subject, body, html), all_texts in asked.items():
            # A route that has already failed takes no more time.
            texts = [each for each in all_texts if _route(orders[each[0]]) not in spoilt]
            for index in {index for index, _ in all_texts} - {index for index, _ in texts}:
                rendered[index].append(SPOILT)
            answers = await self._renderer.render(
                scope, subject, body, [text for _, text in texts], html=html
            )
            for (index, _), answer in zip(texts, answers, strict=True):
                event_id = orders[index].event.id
                size = sizes[event_id] = sizes.get(event_id, 0) + _size(answer)
                rendered[index].append(answer if size <= EVENT_TEXTS_MAX_BYTES else TOO_MUCH)
                if isinstance(rendered[index][-1], RenderProblem):
                    spoilt.add(_route(orders[index]))
        return [self._rows(order, answers) for order, answers in zip(orders, rendered, strict=True)]

    def _attributes(self, order: MessageOrder, urls: UnsubscribeUrls | None) -> list[str]:
        """The attributes that the order's templates are rendered with: one set, or one per
        recipient."""
        to = order.written_to
        common = {**order.event.attributes(), **order.variables}
        if not to:
            return []
        if not order.is_personal:
            return [msgspec.json.encode(common).decode()]
        texts = []
        for each in to:
            personal: dict[str, object] = {
                "recipient": {"id": each.recipient_id, "address": each.address}
            }
            if urls is not None and each.address is not None:
                url = urls.url_of(order.scope, order.channel, each.address, order.purpose.topic)
                personal["unsubscribeUrl"] = url
            texts.append(msgspec.json.encode({**common, **personal}).decode())
        return texts

    def _rows(
        self, order: MessageOrder, answers: Sequence[Rendered | RenderProblem]
    ) -> list[NewNotification] | str:
        problem = next((each for each in answers if isinstance(each, RenderProblem)), None)
        if problem is not None:
            return f"{order.template}: {problem.detail}"
        subjects = [each.subject or "" for each in answers if isinstance(each, Rendered)]
        if any(map(breaks_header, subjects)):
            return f"{order.template}: the rendered subject contains a control character"
        texts = iter(answers)
        shared = next(texts, None) if not order.is_personal else None
        payloads: dict[str | None, str] = {}
        rows = []
        for each, outbox_id in zip(order.to, self._ids.batch(len(order.to)), strict=True):
            skip = each.skip or order.skip
            text = None if skip else shared or next(texts)
            assert not isinstance(text, RenderProblem)
            if text is None:
                rows.append(self._row(order, each, OutboxId(outbox_id), None, NOTHING, skip))
                continue
            if text is not shared or each.time_zone not in payloads:
                # A text that many recipients get is stored once.
                payloads[each.time_zone] = _payload(order, text, each.time_zone)
            payload = payloads[each.time_zone]
            rows.append(self._row(order, each, OutboxId(outbox_id), text.subject, payload, None))
        return rows

    def _row(
        self,
        order: MessageOrder,
        to: Addressee,
        outbox_id: OutboxId,
        subject: str | None,
        payload: str,
        skip: str | None,
    ) -> NewNotification:
        target = order.contract.submission_target
        return NewNotification(
            outbox_id,
            target,
            self._fallback_of(target),
            lane_number(order.channel, to),
            order.channel,
            order.contract.gateway_type,
            to.recipient_id,
            to.address,
            subject,
            payload,
            item_key(order, to),
            order.kind,
            order.template,
            order.due_at,
            order.urgent,
            order.waits_for,
            order.event.id,
            order.step_id,
            ItemStatus.SKIPPED if skip else ItemStatus.QUEUED,
            skip,
            purpose=order.purpose,
        )


def _refuse_odd(composed: Composition) -> None:
    """Senders are third-party code: report to them what cannot be rendered or stored."""
    texts: tuple[object, ...] = (composed.subject or "", composed.body)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a composition's subject and body should be strings")
    if not all(isinstance(each, Attachment) for each in composed.attachments):
        raise TypeError("a composition's attachments should be attachments")
    kept = composed.subject, composed.body, composed.variables, list(composed.attachments)
    msgspec.json.encode(kept)


def _route(order: MessageOrder) -> tuple[str, str]:
    return order.event.id, order.route


def _payload(order: MessageOrder, text: Rendered, time_zone: str | None) -> str:
    content = MessageContent(
        text.subject, text.body, tuple(order.attachments), time_zone, order.is_html
    )
    return msgspec.json.encode(content.as_document()).decode()


def _size(answer: Rendered | RenderProblem) -> int:
    return len(answer.body) if isinstance(answer, Rendered) else 0


def _entries(
    event: DomainEvent,
    rule: Rule,
    step: WorkflowStep,
    digest_seconds: int,
    to: Sequence[Addressee],
) -> list[DigestEntry]:
    variables = msgspec.json.encode(event.attributes()).decode()
    kind = address_kind(step.channel)
    return [
        DigestEntry(
            step.id, rule.audience, each.recipient_id, address_key(kind, each.address), event.id,
            variables, digest_seconds,
        )
        for each in to
        if each.skip is None and each.address is not None
    ]  # fmt: skip


def lane_number(channel: Channel, to: Addressee) -> int:
    """By the address, so that one person's messages are always in one lane."""
    who = address_key(address_kind(channel), to.address or to.recipient_id)
    return int.from_bytes(hashlib.sha256(who.encode()).digest()[:4]) % LANES_PER_TARGET


def item_key(order: MessageOrder, to: Addressee) -> IdempotencyKey:
    """One item per event, step and address, however often it is routed."""
    who = (
        address_key(address_kind(order.channel), to.address)
        if to.address is not None
        else f"nobody:{to.recipient_id}"
    )
    spelt = who.replace("%", "%25").replace("|", "%7C")
    return idempotency_key("workflow", order.event.id, order.origin, order.channel.value, spelt)
