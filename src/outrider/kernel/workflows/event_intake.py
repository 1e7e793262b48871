"""The event intake: accepts each domain event once, and leaves the rest to routing.

Repeating an event is harmless; a different event under the same id is a conflict. An unknown
trigger is refused here, where its sender still gets the error.
"""

from collections.abc import Callable, Sequence

from outrider.domain.emissions import Emission, event_texts
from outrider.domain.errors import IdempotencyConflict
from outrider.domain.ids import Scope
from outrider.kernel.foundation import Foundation
from outrider.kernel.submissions.shared_commits import SharedCommits
from outrider.kernel.transactions import domain_events
from outrider.kernel.transactions.domain_events import (
    EventContents,
    EventFields,
    EventItem,
    StoredEvent,
)
from outrider.limits.campaigns import SHARED_COMMIT_ITEMS

Answer = tuple[StoredEvent, bool] | IdempotencyConflict


class EventIntake:
    def __init__(
        self, foundation: Foundation, triggers: frozenset[str], wake: Callable[[], None]
    ) -> None:
        self._store = foundation.store
        self._triggers = triggers
        self._wake = wake
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._shared = SharedCommits(self._take, SHARED_COMMIT_ITEMS)

    async def emit(
        self, scope: Scope, emission: Emission, trace_parent: str | None = None
    ) -> tuple[StoredEvent, bool]:
        """The event as stored, and whether it is new."""
        fields = EventFields(emission, event_texts(emission), trace_parent)
        answer = await self._shared.put(scope, fields)
        if isinstance(answer, IdempotencyConflict):
            raise answer
        return answer

    async def emit_all(
        self, scope: Scope, emissions: Sequence[Emission], trace_parent: str | None = None
    ) -> list[Answer]:
        """Many at once, in one transaction; an answer for each, in order."""
        fields = [
            EventFields(
                emission,
                event_texts(emission, f"[{index}]." if len(emissions) > 1 else ""),
                trace_parent,
            )
            for index, emission in enumerate(emissions)
        ]
        return await self._take(scope, fields)

    async def _take(self, scope: Scope, fields: Sequence[EventFields]) -> list[Answer]:
        new, stored = await self._store.write(
            domain_events.take(scope, fields, self._triggers, self._ids, self._clock.now())
        )
        if new:
            self._wake()
        answers: list[Answer] = []
        for emission, texts, _ in fields:
            found = stored.get(emission.event_id)
            if found is None:
                answers.append(_retired(emission.event_id))
            elif found.fingerprint == texts.fingerprint:
                # The first of two identical events in a batch is the new one.
                answers.append((found, emission.event_id in new))
                new.discard(emission.event_id)
            else:
                answers.append(_conflict(emission.event_id))
        return answers

    async def event(self, scope: Scope, event_id: str) -> tuple[StoredEvent, list[EventItem]]:
        """The event, and the messages created from it so far."""
        return await self._store.read(
            domain_events.with_items(scope, event_id, self._limits.event_items)
        )

    async def contents(self, scope: Scope, event_id: str) -> EventContents:
        """What its sender submitted."""
        return await self._store.read(domain_events.contents(scope, event_id))

    async def page(
        self,
        scope: Scope,
        before: str,
        most: int,
        *,
        status: str | None = None,
        trigger: str | None = None,
    ) -> list[StoredEvent]:
        return await self._store.read(
            domain_events.page(scope, before, most, status=status, trigger=trigger)
        )

    async def reroute(self, scope: Scope, event_id: str) -> bool:
        """Route the failed parts again; False if no part of the event failed."""
        again = await self._store.write(domain_events.reroute(scope, event_id, self._clock.now()))
        if again:
            self._wake()
        return again


def _retired(event_id: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"the event '{event_id}' was emitted long ago, and has been retired since",
        hint="use a new eventId for a new event",
    )


def _conflict(event_id: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"the event '{event_id}' was already emitted with a different trigger or content",
        hint="use a new eventId for a new event",
    )
