"""The submission manager: the door for single messages. It owns time and attempts from here on.

An intent goes in with the id its client chose; the same intent again is the same intent, another
one under the same id is a conflict. The contract in force now is the one it keeps.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from outrider.domain.callback_urls import problem_with
from outrider.domain.errors import (
    IdempotencyConflict,
    InvalidInput,
    OutriderError,
    Problem,
    StoreRefused,
)
from outrider.domain.ids import IdempotencyKey, Scope, intent_key
from outrider.domain.json_values import is_same
from outrider.domain.purposes import TOPIC_RULE, UNSTATED, Purpose, is_topic
from outrider.domain.recipients import payload_address
from outrider.domain.sending_hours import zone_named
from outrider.domain.states import IntentStatus
from outrider.domain.submission import REALTIME, Contract, GatewayType
from outrider.kernel.contracts.contract_cache import ContractCache, snapshots
from outrider.kernel.delivery.lane_cache import LaneCache
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.foundation import Foundation
from outrider.kernel.submissions.shared_commits import SharedCommits
from outrider.kernel.transactions import intent_lists, retired_keys, submissions
from outrider.kernel.transactions.deployment import ContractSnapshot
from outrider.kernel.transactions.intent_lists import IntentLine
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.kernel.transactions.submissions import Intent, NewIntent, lane_in
from outrider.limits.campaigns import (
    INTENT_ID_MAX_CHARACTERS,
    INTENT_PAYLOAD_MAX_BYTES,
    INTENTS_LOOKED_AT,
    LANES_PER_TARGET,
    SHARED_COMMIT_ITEMS,
)


@dataclass(frozen=True, slots=True)
class Submission:
    """What a client submits."""

    intent_id: str
    submission_target: str
    payload: Mapping[str, Any]
    payload_text: str | None = None
    """The payload as the client spelt it, which is how its gateway gets it."""
    purpose: Purpose = UNSTATED
    callback_url: str | None = None
    """Receives its outcome, and later receipts. A repeat may name another one
    and is the same intent: what is sent, and where to, is not changed by it."""
    time_zone: str | None = None
    """The recipient's, which decides when it may be sent. A repeat may name another one and keeps
    the first."""

    @property
    def text(self) -> str:
        if self.payload_text is not None:
            return self.payload_text
        return msgspec.json.encode(self.payload).decode()


class SubmissionManager:
    def __init__(
        self,
        foundation: Foundation,
        contracts: Callable[[], Mapping[str, Contract]],
        gateway_types: Mapping[str, GatewayType],
        fallback_of: Callable[[str], str | None],
        wake: Callable[[], None],
        refresh: Callable[[], Awaitable[object]],
        right_of_way: RightOfWay,
        *,
        allow_private_callbacks: bool = False,
    ) -> None:
        self._refresh = refresh
        self._right_of_way = right_of_way
        self._allow_private_callbacks = allow_private_callbacks
        self._contract_cache = ContractCache(foundation.store)
        self._wake = wake
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._contracts = contracts
        self._gateway_types = gateway_types
        self._fallback_of = fallback_of
        self._places = LaneCache()
        self._shared = SharedCommits(self.submit_all, SHARED_COMMIT_ITEMS)

    async def submit(self, scope: Scope, submission: Submission) -> tuple[Intent, bool]:
        """The intent in its current state, and whether it is new."""
        answer = await self._shared.put(scope, submission)
        if isinstance(answer, IdempotencyConflict):
            raise answer
        return answer

    async def submit_all(
        self, scope: Scope, batch: Sequence[Submission]
    ) -> list[tuple[Intent, bool] | IdempotencyConflict]:
        """Many at once, in one transaction; an answer for each, in order."""
        in_force = self._contracts()
        self._check(batch, in_force)
        if _refusals(batch, in_force, self._gateway_types):
            # Another server may have put the target in force just now.
            await self._refresh()
            in_force = self._contracts()
            refused = _refusals(batch, in_force, self._gateway_types)
            if refused:
                return await self._with_repeats(scope, batch, refused)
        intents = [self._intent(submission, in_force) for submission in batch]
        targets = {given.submission_target for given in batch}
        contracts = snapshots(targets, in_force, self._fallback_of)
        lanes = {(intent.submission_target, intent.lane) for intent in intents}
        known = self._places.find(scope, contracts, lanes)
        with self._first(in_force[target] for target in targets):
            stored, places = await self._store.write(
                submissions.submit(scope, intents, contracts, self._ids, self._clock.now(), known)
            )
            if known is None:
                self._places.put(scope, contracts, places)
            new = {intent.intent_id for intent in stored.values()}
            if new:
                self._wake()
        retired: set[IdempotencyKey] = set()
        if len(new) < len(intents):
            keys = [intent.key for intent in intents]
            stored = await self._store.read(submissions.intents_by_key(scope, keys))
            missing = [key for key in keys if key not in stored]
            if missing:
                retired = await self._store.read(retired_keys.known(scope, missing))
            if known is not None and not retired.issuperset(missing):
                # The database was replaced by an older one, which has other lanes.
                self._places.clear()
                return await self.submit_all(scope, batch)
        answers: list[tuple[Intent, bool] | IdempotencyConflict] = []
        for intent in intents:
            if intent.key in retired:
                answers.append(_retired(intent.intent_id))
                continue
            found = stored[intent.key]
            same_target = found.submission_target == intent.submission_target
            if same_target and _same(found.payload, intent.payload):
                # The first of two alike in one batch is the new one.
                answers.append((found, intent.intent_id in new))
                new.discard(intent.intent_id)
            else:
                answers.append(_conflict(intent.intent_id))
        return answers

    async def drafted(self, given: Submission) -> tuple[NewIntent, dict[str, ContractSnapshot]]:
        """As it would be written now, under the contract in force. InvalidInput: it is refused."""
        refused = _refusals([given], self._contracts(), self._gateway_types)
        if refused:
            await self._refresh()
            refused = _refusals([given], self._contracts(), self._gateway_types)
        if problems := [*refused.values(), *self._problems(given)]:
            raise InvalidInput(REFUSED, problems)
        in_force = self._contracts()
        contracts = snapshots({given.submission_target}, in_force, self._fallback_of)
        return self._intent(given, in_force), contracts

    def wake(self) -> None:
        self._wake()

    def _first(self, contracts: Iterable[Contract]) -> AbstractContextManager[None]:
        """Messages that are urgent go before campaigns from here on."""
        is_urgent = any(contract.mode == REALTIME for contract in contracts)
        return self._right_of_way.submitting() if is_urgent else nullcontext()

    async def submit_each(
        self, scope: Scope, batch: Sequence[Submission]
    ) -> list[tuple[Intent, bool] | OutriderError]:
        """Submit many in one transaction; a problem with one of them is that one's answer."""
        answers: dict[int, tuple[Intent, bool] | OutriderError] = {}
        for index, given in enumerate(batch):
            if problems := self._problems(given):
                answers[index] = InvalidInput(REFUSED, problems)
        refused = _refusals(batch, self._contracts(), self._gateway_types)
        if refused.keys() - answers.keys():
            # Another server may have put the target in force just now.
            await self._refresh()
            refused = _refusals(batch, self._contracts(), self._gateway_types)
            refused = {index: each for index, each in refused.items() if index not in answers}
            answers |= await self._refused(scope, batch, refused)
        fit = [index for index in range(len(batch)) if index not in answers]
        submitted = await self._committed(scope, [batch[index] for index in fit])
        answers |= dict(zip(fit, submitted, strict=True))
        return [answers[index] for index in range(len(batch))]

    async def _refused(
        self, scope: Scope, batch: Sequence[Submission], refused: Mapping[int, Problem]
    ) -> dict[int, tuple[Intent, bool] | OutriderError]:
        """What would be refused today but was submitted before is answered as it was then."""
        keys = [intent_key(batch[index].intent_id) for index in refused]
        stored = await self._store.read(submissions.intents_by_key(scope, keys))
        return {
            index: _repeated(stored[key], batch[index])
            if (key := intent_key(batch[index].intent_id)) in stored
            else InvalidInput(REFUSED, [Problem(problem.path.rpartition("].")[2], problem.message)])
            for index, problem in refused.items()
        }

    async def _committed(
        self, scope: Scope, batch: Sequence[Submission]
    ) -> list[tuple[Intent, bool] | OutriderError]:
        """Should the database refuse something of them, the others are committed without it."""
        if not batch:
            return []
        try:
            return list(await self.submit_all(scope, batch))
        except (StoreRefused, InvalidInput) as error:
            if len(batch) == 1:
                return [error]
            middle = len(batch) // 2
            first = await self._committed(scope, batch[:middle])
            return [*first, *await self._committed(scope, batch[middle:])]

    async def page(
        self,
        scope: Scope,
        after: str,
        most: int,
        *,
        status: IntentStatus | None = None,
        submission_target: str | None = None,
    ) -> tuple[list[IntentLine], str | None]:
        """Newest first, with the position after which the next page starts."""
        return await self._store.read(
            intent_lists.intents_page(
                scope, after, most, INTENTS_LOOKED_AT, status=status,
                submission_target=submission_target,
            )
        )  # fmt: skip

    async def _with_repeats(
        self, scope: Scope, batch: Sequence[Submission], refused: Mapping[int, Problem]
    ) -> list[tuple[Intent, bool] | IdempotencyConflict]:
        """What would be refused today but was submitted before is answered as it was then."""
        keys = [intent_key(batch[index].intent_id) for index in refused]
        stored = await self._store.read(submissions.intents_by_key(scope, keys))
        unknown = [
            problem
            for index, problem in refused.items()
            if intent_key(batch[index].intent_id) not in stored
        ]
        if unknown:
            raise InvalidInput(REFUSED, unknown)
        others = [each for index, each in enumerate(batch) if index not in refused]
        answers = iter(await self.submit_all(scope, others) if others else ())
        return [
            _repeated(stored[intent_key(given.intent_id)], given)
            if index in refused
            else next(answers)
            for index, given in enumerate(batch)
        ]

    async def contract_of(self, intent: Intent) -> Contract:
        """As it stood when the intent was submitted."""
        return await self._contract_cache.by_id(intent.contract_id)

    async def intent(self, scope: Scope, intent_id: str) -> tuple[Intent, list[Attempt]]:
        return await self._store.read(
            submissions.with_attempts(scope, intent_id, intent_key(intent_id))
        )

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
            given.text,
            key,
            payload_address(gateway.channel, given.payload),
            given.purpose,
            given.callback_url,
            given.time_zone,
        )

    def _check(self, batch: Sequence[Submission], in_force: Mapping[str, Contract]) -> None:
        """What is wrong with the submissions themselves, whatever was submitted before."""
        problems = [
            Problem(_where(batch, index) + problem.path, problem.message)
            for index, given in enumerate(batch)
            for problem in self._problems(given)
        ]
        if problems:
            unknown = _refusals(batch, in_force, {})
            raise InvalidInput(REFUSED, [*unknown.values(), *problems])

    def _problems(self, given: Submission) -> list[Problem]:
        problems = _id_problems(given.intent_id)
        if given.purpose.topic is not None and not is_topic(given.purpose.topic):
            problems.append(Problem("topic", TOPIC_RULE))
        problems += _payload_problems(given)
        if given.time_zone is not None and zone_named(given.time_zone) is None:
            problems.append(Problem("timeZone", ZONE_RULE))
        if given.callback_url is not None:
            wrong = problem_with(given.callback_url, allow_private=self._allow_private_callbacks)
            if wrong is not None:
                problems.append(Problem("callbackUrl", wrong))
        return problems


REFUSED = "the intent is not valid"
ZONE_RULE = "is not a time zone; use one such as Europe/Amsterdam"


def _id_problems(intent_id: str) -> list[Problem]:
    if not intent_id or len(intent_id) > INTENT_ID_MAX_CHARACTERS:
        return [Problem("intentId", f"should have 1 to {INTENT_ID_MAX_CHARACTERS} characters")]
    if not intent_id.isprintable() or "|" in intent_id:
        return [Problem("intentId", "must not contain '|' or control characters")]
    return []


def _payload_problems(given: Submission) -> list[Problem]:
    try:
        text = given.text
        if given.payload_text is not None:
            msgspec.json.decode(text, type=dict[str, Any])
        size = len(text.encode())
    except (
        TypeError, ValueError, OverflowError, RecursionError, msgspec.DecodeError,
    ) as error:  # fmt: skip
        return [Problem("payload", f"is not a JSON object: {error}")]
    if size > INTENT_PAYLOAD_MAX_BYTES:
        return [Problem("payload", f"is larger than {INTENT_PAYLOAD_MAX_BYTES} bytes")]
    return []


def _refusals(
    batch: Sequence[Submission],
    in_force: Mapping[str, Contract],
    gateway_types: Mapping[str, GatewayType],
) -> dict[int, Problem]:
    """By their places, those that are refused if they are new."""
    refused = {}
    for index, given in enumerate(batch):
        contract = in_force.get(given.submission_target)
        if contract is None:
            known = ", ".join(sorted(in_force)) or "none"
            refused[index] = Problem(
                f"{_where(batch, index)}submissionTarget",
                f"is not in the registry, which has: {known}",
            )
            continue
        gateway = gateway_types.get(contract.gateway_type)
        field = gateway.reference_field if gateway else None
        if field is not None and field in given.payload:
            refused[index] = Problem(
                f"{_where(batch, index)}payload.{field}",
                "is set by Outrider to recognise repeats; use another field",
            )
    return refused


def _where(batch: Sequence[Submission], index: int) -> str:
    return f"[{index}]." if len(batch) > 1 else ""


def _repeated(stored: Intent, given: Submission) -> tuple[Intent, bool] | IdempotencyConflict:
    if stored.submission_target == given.submission_target and _same(stored.payload, given.text):
        return stored, False
    return _conflict(given.intent_id)


def _same(stored: str, given: str) -> bool:
    """The same payload is the same one, however the client spelt it the second time."""
    return stored == given or is_same(msgspec.json.decode(stored), msgspec.json.decode(given))


def _retired(intent_id: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"the intent '{intent_id}' was submitted long ago, and has been retired since",
        hint="use a new intentId for a new message",
    )


def _conflict(intent_id: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"the intent '{intent_id}' was already submitted with a different target or payload",
        hint="use a new intentId for a new message",
    )
