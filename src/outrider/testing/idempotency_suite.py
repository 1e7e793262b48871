"""The conformance suite of idempotency: subclass it and provide a `bench` fixture.

    class TestMine(IdempotencyConformance):
        '''`bench` is made with TTL_SECONDS and RUNNING_SECONDS, and empty.'''

Time passes when the bench lets it, so nothing in it waits.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from outrider.domain.ids import DEFAULT_SCOPE, DEFAULT_TENANT, Scope, TenantId, WorkspaceId
from outrider.ports.idempotency import (
    IdempotencyStore,
    KeyUsed,
    OtherRequest,
    RequestKey,
    Running,
    StoredAnswer,
    Yours,
)
from outrider.ports.store import Transaction, ask

TTL_SECONDS = 300
RUNNING_SECONDS = 60
CLAIMERS = 50

OTHER_WORKSPACE = Scope(DEFAULT_TENANT, WorkspaceId("00000000-0000-7000-8000-00000000000b"))
OTHER_TENANT = Scope(TenantId("00000000-0000-7000-8000-00000000000a"), DEFAULT_SCOPE.workspace_id)
KEY, PRINT = "order-17", "f" * 64
CREATED = StoredAnswer(201, "application/json", '{"id": 1, "name": "Zoë \\u0000 \\"/\\" 🚀"}')
REFUSED = StoredAnswer(422, "application/problem+json", '{"code": "INVALID_REQUEST"}')
ODD_KEYS = (
    "a|b", "a:b", "a b", " a", "a ", "A", "a", "Å", "A\u030a", "ключ", "鍵🔑", "'; DROP TABLE x",
    "*", "%", "{a}", "\\", "a\nb", "x" * 255, "🔑" * 255,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IdempotencyBench:
    """One store of records, reached twice as two processes would reach it."""

    here: IdempotencyStore
    there: IdempotencyStore
    pass_time: Callable[[float], Awaitable[None]]
    write: Callable[[Transaction[str]], Awaitable[str]]
    """Runs a script in the transactions that the keys of `here` belong to."""


def named(name: str = KEY, fingerprint: str = PRINT, scope: Scope = DEFAULT_SCOPE) -> RequestKey:
    return RequestKey(scope, name, fingerprint)


async def claimed(
    store: IdempotencyStore, key: str = KEY, fingerprint: str = PRINT, scope: Scope = DEFAULT_SCOPE
) -> str:
    """The owner of a claim that must be ours."""
    answer = await store.claim(named(key, fingerprint, scope))
    assert isinstance(answer, Yours)
    return answer.owner


def _script(result: str) -> Transaction[str]:
    yield from ask("signing_key", name="none")
    return result


class IdempotencyConformance:
    async def test_the_first_request_executes_and_a_concurrent_one_is_told_so(
        self, bench: IdempotencyBench
    ) -> None:
        await claimed(bench.here)
        for store in (bench.here, bench.there):
            assert await store.claim(named()) == Running()

    @pytest.mark.parametrize("answer", [CREATED, REFUSED], ids=["success", "error"])
    async def test_a_later_request_gets_the_first_response_byte_for_byte(
        self, bench: IdempotencyBench, answer: StoredAnswer
    ) -> None:
        owner = await claimed(bench.here)
        await bench.here.finish(named(), owner, answer)
        for store in (bench.here, bench.there):
            assert await store.claim(named()) == answer

    async def test_an_answer_without_a_body_is_an_answer(self, bench: IdempotencyBench) -> None:
        owner = await claimed(bench.here)
        await bench.here.finish(named(), owner, StoredAnswer(204, "", ""))
        assert await bench.here.claim(named()) == StoredAnswer(204, "", "")

    async def test_another_request_with_the_key_is_refused_while_it_runs_and_afterwards(
        self, bench: IdempotencyBench
    ) -> None:
        owner = await claimed(bench.here)
        assert await bench.there.claim(named(fingerprint="other")) == OtherRequest()
        await bench.here.finish(named(), owner, CREATED)
        assert await bench.there.claim(named(fingerprint="other")) == OtherRequest()
        assert await bench.there.claim(named()) == CREATED

    async def test_the_same_key_in_another_workspace_or_tenant_is_another_key(
        self, bench: IdempotencyBench
    ) -> None:
        owner = await claimed(bench.here)
        for scope in (OTHER_WORKSPACE, OTHER_TENANT):
            await claimed(bench.here, scope=scope)
            await bench.here.finish(named(scope=scope), owner, REFUSED)
            assert await bench.here.claim(named(scope=scope)) == Running()
        await bench.here.finish(named(), owner, CREATED)
        assert await bench.here.claim(named()) == CREATED
        assert await bench.here.claim(named(scope=OTHER_TENANT)) == Running()

    async def test_an_abandoned_key_may_be_tried_by_the_next_request(
        self, bench: IdempotencyBench
    ) -> None:
        first = await claimed(bench.here)
        await bench.here.abandon(named(), first)
        second = await claimed(bench.there, fingerprint="mended")
        await bench.here.abandon(named(), first)
        await bench.here.finish(named(), first, REFUSED)
        assert await bench.here.claim(named(fingerprint="mended")) == Running()
        await bench.there.finish(named(), second, CREATED)
        assert await bench.here.claim(named(fingerprint="mended")) == CREATED

    async def test_an_answer_that_was_given_is_neither_changed_nor_abandoned(
        self, bench: IdempotencyBench
    ) -> None:
        owner = await claimed(bench.here)
        await bench.here.finish(named(), owner, CREATED)
        await bench.here.finish(named(), owner, REFUSED)
        await bench.here.abandon(named(), owner)
        assert await bench.here.claim(named()) == CREATED

    async def test_an_answer_is_kept_for_its_time_from_when_it_was_given(
        self, bench: IdempotencyBench
    ) -> None:
        owner = await claimed(bench.here)
        await bench.pass_time(RUNNING_SECONDS - 10)
        await bench.here.finish(named(), owner, CREATED)
        await bench.pass_time(TTL_SECONDS - 10)
        assert await bench.here.claim(named()) == CREATED
        await bench.pass_time(10)
        await claimed(bench.here)

    async def test_an_expired_key_may_be_used_for_another_request(
        self, bench: IdempotencyBench
    ) -> None:
        owner = await claimed(bench.here)
        await bench.here.finish(named(), owner, CREATED)
        await bench.pass_time(TTL_SECONDS)
        await claimed(bench.there, fingerprint="other")
        assert await bench.here.claim(named()) == OtherRequest()

    async def test_a_vanished_owner_is_replaced_and_can_no_longer_change_the_record(
        self, bench: IdempotencyBench
    ) -> None:
        vanished = await claimed(bench.here)
        await bench.pass_time(RUNNING_SECONDS - 10)
        assert await bench.there.claim(named()) == Running()
        await bench.pass_time(10)
        replaced = await claimed(bench.there)
        await bench.here.finish(named(), vanished, REFUSED)
        await bench.here.abandon(named(), vanished)
        assert await bench.here.claim(named()) == Running()
        await bench.there.finish(named(), replaced, CREATED)
        assert await bench.here.claim(named()) == CREATED

    async def test_a_renewed_claim_is_kept(self, bench: IdempotencyBench) -> None:
        owner = await claimed(bench.here)
        for _ in range(3):
            await bench.pass_time(RUNNING_SECONDS - 10)
            await bench.here.renew(named(), owner)
            assert await bench.there.claim(named()) == Running()
        await bench.here.renew(named(), "another")
        await bench.pass_time(RUNNING_SECONDS)
        await claimed(bench.there)

    async def test_a_guarded_script_keeps_its_answer_with_what_it_does(
        self, bench: IdempotencyBench
    ) -> None:
        """C1: key, change and answer are one transaction."""
        done = await bench.write(bench.here.guarded(named(), _script("done"), lambda _: CREATED))
        assert done == "done"
        assert await bench.there.claim(named()) == CREATED
        with pytest.raises(KeyUsed) as used:
            await bench.write(bench.here.guarded(named(), _script("again"), lambda _: REFUSED))
        assert used.value.found == CREATED
        other = named(fingerprint="other")
        with pytest.raises(KeyUsed) as used:
            await bench.write(bench.here.guarded(other, _script("again"), lambda _: REFUSED))
        assert used.value.found == OtherRequest()

    async def test_a_guarded_script_that_fails_leaves_no_trace_of_its_key(
        self, bench: IdempotencyBench
    ) -> None:
        def failing() -> Transaction[str]:
            yield from _script("")
            raise RuntimeError("refused")

        with pytest.raises(RuntimeError, match="refused"):
            await bench.write(bench.here.guarded(named(), failing(), lambda _: CREATED))
        await claimed(bench.there)

    async def test_the_first_recorded_refusal_counts_for_all(self, bench: IdempotencyBench) -> None:
        assert await bench.here.keep(named(), REFUSED) == REFUSED
        assert await bench.there.keep(named(), CREATED) == REFUSED
        assert await bench.there.keep(named(fingerprint="other"), CREATED) == OtherRequest()
        await bench.pass_time(TTL_SECONDS)
        assert await bench.there.keep(named(), CREATED) == CREATED

    async def test_of_many_at_once_exactly_one_executes(self, bench: IdempotencyBench) -> None:
        answers = await asyncio.gather(*self._claims(bench))
        assert sum(isinstance(answer, Yours) for answer in answers) == 1
        assert answers.count(Running()) == CLAIMERS - 1

    async def test_of_many_at_once_exactly_one_replaces_a_vanished_owner(
        self, bench: IdempotencyBench
    ) -> None:
        await claimed(bench.here)
        await bench.pass_time(RUNNING_SECONDS)
        answers = await asyncio.gather(*self._claims(bench))
        assert sum(isinstance(answer, Yours) for answer in answers) == 1
        assert answers.count(Running()) == CLAIMERS - 1

    async def test_any_text_is_a_distinct_key(self, bench: IdempotencyBench) -> None:
        owners = [await claimed(bench.here, key) for key in ODD_KEYS]
        for number, (key, owner) in enumerate(zip(ODD_KEYS, owners, strict=True)):
            await bench.here.finish(named(key), owner, StoredAnswer(200, "", str(number)))
        for number, key in enumerate(ODD_KEYS):
            found = await bench.there.claim(named(key))
            assert found == StoredAnswer(200, "", str(number))

    def _claims(self, bench: IdempotencyBench) -> list[Awaitable[object]]:
        stores = (bench.here, bench.there)
        return [stores[number % 2].claim(named()) for number in range(CLAIMERS)]
