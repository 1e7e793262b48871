"""The submission manager: the door for single messages. It owns time and attempts from here on.

An intent goes in with the id its client chose; the same intent again is the same intent, another
one under the same id is a conflict. The contract in force now is the one it keeps.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from outrider.domain.errors import IdempotencyConflict, InvalidInput, NotFound, Problem
from outrider.domain.ids import IdempotencyKey, OutboxId, Scope, idempotency_key
from outrider.domain.submission import Contract, GatewayType
from outrider.domain.times import rfc3339
from outrider.kernel.contract_shelf import snapshots
from outrider.kernel.place_shelf import PlaceShelf
from outrider.kernel.shared_commits import SharedCommits
from outrider.kernel.transactions import inspection, submissions
from outrider.kernel.transactions.inspection import Attempt
from outrider.kernel.transactions.submissions import Intent, NewIntent, lane_in
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store, Transaction
from outrider.settings import (
    INTENT_ID_MAX_CHARACTERS,
    INTENT_PAYLOAD_MAX_BYTES,
    LANES_PER_TARGET,
    SHARED_COMMIT_ITEMS,
)


@dataclass(frozen=True, slots=True)
class Submission:
    """What a client submits."""

    intent_id: str
    submission_target: str
    payload: Mapping[str, Any]


class SubmissionManager:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource,
        contracts: Callable[[], Mapping[str, Contract]],
        gateway_types: Mapping[str, GatewayType],
        fallback_of: Callable[[str], str | None],
        wake: Callable[[], None],
    ) -> None:
        self._wake = wake
        self._store = store
        self._clock = clock
        self._ids = ids
        self._contracts = contracts
        self._gateway_types = gateway_types
        self._fallback_of = fallback_of
        self._places = PlaceShelf()
        self._shared = SharedCommits(self.submit_all, SHARED_COMMIT_ITEMS)

    async def submit(self, scope: Scope, submission: Submission) -> tuple[Intent, bool]:
        """The intent as it stands, and whether it is new."""
        answer = await self._shared.put(scope, submission)
        if isinstance(answer, IdempotencyConflict):
            raise answer
        return answer

    async def submit_all(
        self, scope: Scope, batch: Sequence[Submission]
    ) -> list[tuple[Intent, bool] | IdempotencyConflict]:
        """Many at once, in one transaction; an answer for each, in order."""
        in_force = self._contracts()
        _check(batch, in_force)
        intents = [self._intent(submission, in_force) for submission in batch]
        targets = {given.submission_target for given in batch}
        contracts = snapshots(targets, in_force, self._fallback_of)
        lanes = {(intent.submission_target, intent.lane) for intent in intents}
        known = self._places.find(scope, contracts, lanes)
        stored, places = await self._store.write(
            submissions.submit(scope, intents, contracts, self._ids, self._clock.now(), known)
        )
        if known is None:
            self._places.put(scope, contracts, places)
        new = {intent.intent_id for intent in stored.values()}
        if new:
            self._wake()
        if len(new) < len(intents):
            keys = [intent.key for intent in intents]
            stored = await self._store.read(submissions.intents_by_key(scope, keys))
            if known is not None and not stored.keys() >= set(keys):
                # Somebody put an older database in place of this one: its lanes are others.
                self._places.clear()
                return await self.submit_all(scope, batch)
        answers: list[tuple[Intent, bool] | IdempotencyConflict] = []
        for intent in intents:
            found = stored[intent.key]
            if _same(found, intent):
                # The first of two alike in one batch is the new one.
                answers.append((found, intent.intent_id in new))
                new.discard(intent.intent_id)
            else:
                answers.append(_conflict(intent.intent_id))
        return answers

    async def intent(self, scope: Scope, intent_id: str) -> tuple[Intent, list[Attempt]]:
        return await self._store.read(_with_attempts(scope, intent_id))

    def _intent(self, given: Submission, in_force: Mapping[str, Contract]) -> NewIntent:
        contract = in_force[given.submission_target]
        gateway = self._gateway_types[contract.gateway_type]
        key = intent_key(given.intent_id)
        return NewIntent(
            given.intent_id,
            given.submission_target,
            self._fallback_of(given.submission_target),
            lane_in(contract.mode, int(key[:8], 16) % LANES_PER_TARGET),
            gateway.channel.value,
            gateway.name,
            _canonical(given.payload),
            key,
        )


def intent_key(intent_id: str) -> IdempotencyKey:
    return idempotency_key("intent", intent_id)


def intent_document(intent: Intent, attempts: Sequence[Attempt]) -> dict[str, object]:
    """An intent as clients see it."""
    return {
        "intentId": intent.intent_id,
        "outboxId": intent.outbox_id,
        "submissionTarget": intent.submission_target,
        "payload": msgspec.Raw(intent.payload.encode()),
        "status": intent.status,
        "finalOutcome": intent.final_outcome,
        "exhaustedReason": intent.exhausted_reason,
        "inDoubt": intent.doubted_at is not None,
        "reason": intent.reason,
        "error": intent.error,
        "waitsFor": intent.waits_for,
        "createdAt": rfc3339(intent.created_at),
        "attempts": [
            {
                "number": attempt.number,
                "openedAt": rfc3339(attempt.opened_at),
                "closedAt": rfc3339(attempt.closed_at) if attempt.closed_at else None,
                "outcome": attempt.outcome,
                "reason": attempt.reason,
                "error": attempt.error,
                "progress": attempt.progress,
            }
            for attempt in attempts
        ],
    }


def _with_attempts(scope: Scope, intent_id: str) -> Transaction[tuple[Intent, list[Attempt]]]:
    key = intent_key(intent_id)
    found = yield from submissions.intents_by_key(scope, [key])
    if key not in found:
        raise NotFound(f"there is no intent '{intent_id}'")
    intent = found[key]
    return intent, (yield from inspection.attempts_of(OutboxId(intent.outbox_id)))


def _check(batch: Sequence[Submission], in_force: Mapping[str, Contract]) -> None:
    problems = []
    for index, given in enumerate(batch):
        where = f"[{index}]." if len(batch) > 1 else ""
        if not given.intent_id or len(given.intent_id) > INTENT_ID_MAX_CHARACTERS:
            problems.append(
                Problem(
                    f"{where}intentId", f"should have 1 to {INTENT_ID_MAX_CHARACTERS} characters"
                )
            )
        elif not given.intent_id.isprintable() or "|" in given.intent_id:
            problems.append(
                Problem(f"{where}intentId", "must not contain '|' or control characters")
            )
        if given.submission_target not in in_force:
            known = ", ".join(sorted(in_force)) or "none"
            problems.append(
                Problem(f"{where}submissionTarget", f"is not in the registry, which has: {known}")
            )
        try:
            size = len(_canonical(given.payload).encode())
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            problems.append(Problem(f"{where}payload", f"is not a JSON object: {error}"))
        else:
            if size > INTENT_PAYLOAD_MAX_BYTES:
                problems.append(
                    Problem(f"{where}payload", f"is larger than {INTENT_PAYLOAD_MAX_BYTES} bytes")
                )
    if problems:
        raise InvalidInput("the intent cannot be submitted", problems)


def _canonical(payload: Mapping[str, Any]) -> str:
    """Keys in order: the same payload is the same text, however the client spelt it."""
    return msgspec.json.encode(payload, order="sorted").decode()


def _same(stored: Intent, given: NewIntent) -> bool:
    return stored.submission_target == given.submission_target and _digest(
        _canonical(msgspec.json.decode(stored.payload))
    ) == _digest(given.payload)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _conflict(intent_id: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"the intent '{intent_id}' was submitted before with another target or payload",
        hint="use a new intentId for a new message",
    )
