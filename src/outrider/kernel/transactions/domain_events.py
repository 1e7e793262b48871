"""Domain events: accepted once by their sender's id, claimed by a router, settled with routes."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.emissions import Emission, EventTexts, is_event_id
from outrider.domain.errors import InvalidInput, NotFound, Problem
from outrider.domain.ids import OutboxId, Scope, TenantId, WorkspaceId
from outrider.domain.purposes import Purpose
from outrider.domain.receipts import UNREPORTED, Delivery
from outrider.domain.retention import event_memory_key
from outrider.domain.states import Channel
from outrider.domain.texts import storable
from outrider.domain.workflow_documents import config_from, timing_from
from outrider.domain.workflows import (
    DomainEvent,
    DomainEventId,
    EventStatus,
    Rule,
    RuleId,
    StepId,
    WorkflowStep,
)
from outrider.kernel.transactions import deliveries
from outrider.ports.clock import IdSource
from outrider.ports.store import Row, Transaction, Window, ask, ask_alone


class EventFields(NamedTuple):
    """A validated emission, and the trace it came with."""

    emission: Emission
    texts: EventTexts
    trace_parent: str | None = None


class StoredEvent(NamedTuple):
    """An event as stored, and what was decided about it."""

    id: DomainEventId
    event_id: str
    trigger: str
    occurred_at: datetime
    fingerprint: str
    status: str
    attempts: int
    routes: str | None
    error: str | None
    created_at: datetime
    updated_at: datetime


class EventContents(NamedTuple):
    subject: str
    variables: str


class ClaimedEvent(NamedTuple):
    id: DomainEventId
    tenant_id: TenantId
    workspace_id: WorkspaceId
    event_id: str
    trigger: str
    occurred_at: datetime
    subject: str
    variables: str
    attempts: int
    trace_parent: str | None
    created_at: datetime
    routes: str | None
    error: str | None

    @property
    def size_bytes(self) -> int:
        """In characters, which is close enough."""
        return len(self.subject) + len(self.variables)

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant_id, self.workspace_id)

    def event(self) -> DomainEvent:
        return DomainEvent(
            self.id, self.event_id, self.trigger, self.occurred_at,
            msgspec.json.decode(self.subject), msgspec.json.decode(self.variables),
        )  # fmt: skip


class SettledEvent(NamedTuple):
    id: DomainEventId
    status: EventStatus
    routes: str
    error: str | None


class EventItem(NamedTuple):
    """A ledger row that followed from an event."""

    id: OutboxId
    step_id: StepId | None
    channel: str
    recipient_id: str
    address: str | None
    status: str
    reason: str | None
    error: str | None
    attempts: int
    next_attempt_at: datetime | None
    waits_for: str | None
    doubted_at: datetime | None
    template: str
    submission_target: str
    opened_at: datetime | None
    delivery: Delivery = UNREPORTED


def insert(
    scope: Scope,
    emitted: Sequence[EventFields],
    ids: IdSource,
    now: datetime,
) -> Transaction[set[str]]:
    """The event ids of those that are new."""
    # A fixed order: two batches with the same events cannot deadlock.
    ordered = sorted(emitted, key=lambda each: each.emission.event_id)
    rows = yield from ask(
        "insert_domain_events",
        {
            "id": ids.batch(len(ordered)),
            "event_id": [each.emission.event_id for each in ordered],
            "trigger_name": [each.emission.trigger for each in ordered],
            "occurred_at": [each.emission.occurred_at or now for each in ordered],
            "subject": [each.texts.subject for each in ordered],
            "variables": [each.texts.variables for each in ordered],
            "fingerprint": [each.texts.fingerprint for each in ordered],
            "trace_parent": [each.trace_parent for each in ordered],
            "memory_key": [event_memory_key(each.emission.event_id) for each in ordered],
        },
        **scope._asdict(),
        now=now,
    )
    return {row[0] for row in rows}


def by_event_id(scope: Scope, event_ids: Sequence[str]) -> Transaction[dict[str, StoredEvent]]:
    rows = yield from ask("domain_events_by_event_id", {"event_id": event_ids}, **scope._asdict())
    return {row[1]: StoredEvent(*row) for row in rows}


def event(scope: Scope, event_id: str) -> Transaction[StoredEvent]:
    found: dict[str, StoredEvent] = {}
    if is_event_id(event_id):
        found = yield from by_event_id(scope, [event_id])
    if event_id not in found:
        raise NotFound(
            f"there is no event '{event_id}'", hint="`outrider event list` lists the events"
        )
    return found[event_id]


def page(
    scope: Scope, before: str, most: int, *, status: str | None = None, trigger: str | None = None
) -> Transaction[list[StoredEvent]]:
    """Newest first."""
    where = {**scope._asdict(), "before": before, "most": most}
    if trigger is not None:
        where |= {"trigger_name": trigger, "status": status}
        rows = yield from ask("events_of_trigger_page", **where)
    elif status == EventStatus.FAILED:
        rows = yield from ask("failed_events_page", **where)
    else:
        rows = yield from ask("domain_events_page", **where, status=status)
    return [StoredEvent(*row) for row in rows]


def count_failed(scope: Scope, trigger: str | None, most: int) -> Transaction[int]:
    rows = yield from ask("count_failed_events", **scope._asdict(), trigger_name=trigger, most=most)
    count: int = rows[0][0]
    return count


def contents(scope: Scope, event_id: str) -> Transaction[EventContents]:
    """What its sender submitted; read separately, because it may be large."""
    rows = yield from ask("event_contents", **scope._asdict(), event_id=event_id)
    return EventContents(*rows[0])


def items(scope: Scope, domain_event_id: DomainEventId, most: int) -> Transaction[list[EventItem]]:
    rows = yield from ask(
        "items_of_event", **scope._asdict(), domain_event_id=domain_event_id, most=most
    )
    found = [EventItem(*row) for row in rows]
    known = yield from deliveries.of_items([each.id for each in found])
    return [each._replace(delivery=known.get(each.id, UNREPORTED)) for each in found]


def claim(most: int, lease_expires_at: datetime, now: datetime) -> Transaction[list[ClaimedEvent]]:
    rows = yield from ask_alone(
        "claim_events", most=most, lease_expires_at=lease_expires_at, now=now
    )
    return sorted(ClaimedEvent(*row) for row in rows)


def keep(ids: Sequence[DomainEventId], lease_expires_at: datetime) -> Transaction[None]:
    yield from ask("keep_events", {"id": sorted(ids)}, lease_expires_at=lease_expires_at)


def still_received(ids: Sequence[DomainEventId]) -> Transaction[set[DomainEventId]]:
    rows = yield from ask("lock_received", {"id": sorted(ids)})
    return {DomainEventId(row[0]) for row in rows}


def settle(settled: Sequence[SettledEvent], now: datetime) -> Transaction[None]:
    yield from ask(
        "settle_events",
        {
            "id": [each.id for each in settled],
            "status": [each.status.value for each in settled],
            "routes": [each.routes for each in settled],
            "error": [storable(each.error) for each in settled],
        },
        now=now,
    )


def postpone(
    ids: Sequence[DomainEventId], route_at: datetime, error: str, now: datetime
) -> Transaction[None]:
    window: Window = {
        "id": sorted(ids),
        "route_at": [route_at] * len(ids),
        "error": [storable(error)] * len(ids),
    }
    yield from ask("postpone_events", window, now=now)


def reroute(scope: Scope, event_id: str, now: datetime) -> Transaction[bool]:
    """Whether there was anything to route again."""
    yield from event(scope, event_id)
    rows = yield from ask("reroute_event", **scope._asdict(), event_id=event_id, now=now)
    return bool(rows)


def rules_of(scope: Scope, triggers: Sequence[str]) -> Transaction[list[Rule]]:
    rows = yield from ask(
        "rules_of_triggers", {"trigger_name": sorted(triggers)}, **scope._asdict()
    )
    return [rule_from(row) for row in rows]


def rule_from(row: Row) -> Rule:
    rule_id, trigger, channel, audience, enabled, urgent, topic, transactional = row
    return Rule(
        RuleId(rule_id), trigger, Channel(channel), audience, bool(enabled), bool(urgent),
        Purpose(topic, bool(transactional)),
    )  # fmt: skip


def steps_of(rules: Sequence[RuleId]) -> Transaction[list[WorkflowStep]]:
    if not rules:
        return []
    rows = yield from ask("steps_of_rules", {"id": sorted(rules)})
    return [step_from(row) for row in rows]


def step_from(row: Row) -> WorkflowStep:
    (
        step_id, rule_id, step_order, enabled, channel, target, subject, body, timing, config,
        digest_seconds, topic, created_at,
    ) = row  # fmt: skip
    return WorkflowStep(
        StepId(step_id), RuleId(rule_id), step_order, Channel(channel), body, created_at,
        bool(enabled), subject, target, timing_from(msgspec.json.decode(timing)),
        config_from(msgspec.json.decode(config)), digest_seconds, topic,
    )  # fmt: skip


def rules_with_steps(
    scope: Scope, triggers: set[str]
) -> Transaction[tuple[dict[str, list[Rule]], dict[str, list[WorkflowStep]]]]:
    """Rules by their trigger, and the steps of the enabled ones by their rule."""
    by_trigger: dict[str, list[Rule]] = {}
    found = yield from rules_of(scope, sorted(triggers))
    for rule in found:
        by_trigger.setdefault(rule.trigger, []).append(rule)
    by_rule: dict[str, list[WorkflowStep]] = {}
    for step in (yield from steps_of([rule.id for rule in found if rule.enabled])):
        by_rule.setdefault(step.rule_id, []).append(step)
    return by_trigger, by_rule


def with_items(
    scope: Scope, event_id: str, most: int
) -> Transaction[tuple[StoredEvent, list[EventItem]]]:
    found = yield from event(scope, event_id)
    return found, (yield from items(scope, found.id, most))


def take(
    scope: Scope,
    emitted: Sequence[EventFields],
    triggers: AbstractSet[str],
    ids: IdSource,
    now: datetime,
) -> Transaction[tuple[set[str], dict[str, StoredEvent]]]:
    """Those that are new, and all of them as they are stored. Without a rule, only these triggers
    are known."""
    yield from _refuse_unknown(scope, emitted, triggers)
    new = yield from insert(scope, emitted, ids, now)
    return new, (yield from by_event_id(scope, [each.emission.event_id for each in emitted]))


def _refuse_unknown(
    scope: Scope, emitted: Sequence[EventFields], triggers: AbstractSet[str]
) -> Transaction[None]:
    """Known triggers are the built-in ones, those of legacy senders, and those named in rules."""
    others = {each.emission.trigger for each in emitted} - triggers
    if not others:
        return
    ruled = {rule.trigger for rule in (yield from rules_of(scope, sorted(others)))}
    problems = [
        Problem(
            f"[{index}].trigger" if len(emitted) > 1 else "trigger",
            f"'{emission.trigger}' is not a known trigger; add a rule for it first."
            f" Known without one: {', '.join(sorted(triggers))}",
        )
        for index, (emission, _, _) in enumerate(emitted)
        if emission.trigger in others - ruled
    ]
    if problems:
        raise InvalidInput("the event was refused", problems)
