"""The domain shaper, over real sockets: a mailbox provider that is slow or defers does not hold up
the others, and what waits for it uses no attempt."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.states import Channel
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items, policy_holds
from outrider.kernel.transactions.ledger_items import Item
from outrider.testing.launches import launch, message, until_terminal
from tests.support.domain_mail import BUSY, NAME, DomainServer, mixed, people_at, shaped
from tests.support.eventually import eventually, observed_for
from tests.support.whole_runs import items_of, work_until_terminal, working

MAIL = message(Channel.EMAIL, NAME)
WAIT_SECONDS = 60.0
LETTERS = 6
HANGING = ("slow.test", "one.test", "other.test")


async def attempts_of(outrider: Outrider, run_id: RunId) -> Counter[int]:
    return Counter(each.attempts for each in (await items_of(outrider, run_id)).values())


async def waiting(outrider: Outrider, run_id: RunId) -> dict[str, int]:
    found = await outrider.store.read(policy_holds.of_runs([run_id]))
    return {hold.waits_for: hold.waiting for hold in found.get(run_id, []) if hold.waiting}


async def test_a_domain_that_defers_waits_without_attempts_while_another_flows(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    server.deferred["slow.test"] = BUSY
    async with shaped(database, tmp_path, server, shape_domains=True) as outrider:
        audience = mixed(people_at("slow.test", 60), people_at("fast.test", 60))
        run_id = await launch(outrider, [MAIL], audience, batch_size=40)
        async with working(outrider):
            await eventually(lambda: server.count("fast.test") == 60)

            async def says_so() -> bool:
                held = await waiting(outrider, run_id)
                blockers = await outrider.blocker_finder.of_run(run_id)
                codes = [each.code.value for each in blockers]
                return "domain_throttled" in held and codes == ["TARGET_SHAPED"]

            await eventually(says_so)
            assert server.count("slow.test") == 0
            assert server.asked["slow.test"] < 60, "most were never called"
            server.deferred.clear()
            accounting = await until_terminal(outrider, run_id, seconds=WAIT_SECONDS)
        assert (accounting.sent, accounting.failed, accounting.in_doubt) == (120, 0, 0)
        assert await attempts_of(outrider, run_id) == {1: 120}
        assert server.count("slow.test") == 60


async def test_a_domain_that_keeps_deferring_is_asked_less_and_less(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    server.deferred["slow.test"] = BUSY
    async with shaped(database, tmp_path, server, shape_domains=True) as outrider:
        await launch(outrider, [MAIL], people_at("slow.test", 200), batch_size=50)
        async with working(outrider):
            await eventually(lambda: server.asked["slow.test"])
            await observed_for(1.5)
    # Those in flight when it first deferred, and then a probe after 0.1 s, 0.2 s, 0.4 s …
    assert server.asked["slow.test"] <= 16


async def test_domains_of_one_mailbox_provider_share_its_limits(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    domains = {"mailhost.test": {"rate_per_second": 10}}
    async with shaped(database, tmp_path, server, domains=domains) as outrider:
        audience = mixed(people_at("one.test", 10), people_at("two.test", 10))
        run_id = await launch(outrider, [MAIL], audience)
        assert (await work_until_terminal(outrider, run_id)).sent == 20
    taken = sorted(server.taken["one.test"] + server.taken["two.test"])
    assert taken[-1] - taken[0] >= 0.7, "ten at once, and ten in the second after that"


async def test_a_rate_of_one_domain_is_kept_and_the_others_do_not_wait_for_it(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    domains = {"slow.test": {"rate_per_second": 10}}
    async with shaped(database, tmp_path, server, domains=domains) as outrider:
        audience = mixed(people_at("slow.test", 30), people_at("fast.test", 30))
        run_id = await launch(outrider, [MAIL], audience, batch_size=20)
        accounting = await work_until_terminal(outrider, run_id)
        assert accounting.sent == 60
        assert await attempts_of(outrider, run_id) == {1: 60}
    slow = server.taken["slow.test"]
    assert max(server.taken["fast.test"]) < max(slow)
    assert slow[-1] - slow[0] >= 1.4, "ten at once, and ten in each second after that"


async def test_two_workers_together_keep_to_the_connections_of_a_domain(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    server.seconds = {"slow.test": 0.03}
    async with AsyncExitStack() as stack:
        domains = {"slow.test": {"connections": 3}}
        first = await stack.enter_async_context(
            shaped(database, tmp_path, server, domains=domains, concurrency=6)
        )
        audience = mixed(people_at("slow.test", 40), people_at("fast.test", 40))
        run_id = await launch(first, [MAIL], audience, batch_size=10)
        await stack.enter_async_context(working(first, worker_id=WorkerId("a")))
        await stack.enter_async_context(working(first, worker_id=WorkerId("b")))
        accounting = await until_terminal(first, run_id, seconds=WAIT_SECONDS)
        assert accounting.sent == 80
        assert await attempts_of(first, run_id) == {1: 80}
    assert 1 <= server.most_at_once["slow.test"] <= 3


@pytest.mark.parametrize("hanging", [("slow.test",), ("slow.test", "one.test"), HANGING])
async def test_domains_that_hang_leave_calls_for_the_others(
    database: str, tmp_path: Path, hanging: tuple[str, ...]
) -> None:
    server = DomainServer()
    server.seconds = dict.fromkeys(hanging, 30.0)
    async with shaped(database, tmp_path, server, shape_domains=True, concurrency=4) as outrider:
        # Most of the hanging ones come first.
        audience = mixed(*(people_at(each, 20) for each in hanging), people_at("fast.test", 30))
        run_id = await launch(outrider, [MAIL], audience, batch_size=200)
        async with working(outrider):
            await eventually(lambda: server.count("fast.test") == 30)
            assert not any(server.count(each) for each in hanging)
            server.release()
            accounting = await until_terminal(outrider, run_id, seconds=WAIT_SECONDS)
        assert accounting.sent == 30 + 20 * len(hanging)
        assert await attempts_of(outrider, run_id) == {1: accounting.sent}


async def test_domains_that_begin_to_hang_together_leave_calls_for_the_others(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    async with shaped(database, tmp_path, server, shape_domains=True) as outrider:
        audience = mixed(*(people_at(each, 60) for each in ("slow.test", "one.test", "fast.test")))
        run_id = await launch(outrider, [MAIL], audience, batch_size=200)
        async with working(outrider):
            await eventually(lambda: server.count("slow.test") and server.count("one.test"))
            server.seconds = {"slow.test": 30.0, "one.test": 30.0}
            await eventually(lambda: server.count("fast.test") == 60)
            assert server.count("slow.test") < 60
            server.release()
            accounting = await until_terminal(outrider, run_id, seconds=WAIT_SECONDS)
        assert accounting.sent == 180


async def test_single_messages_wait_for_their_domain_without_an_attempt(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    server.deferred["slow.test"] = BUSY
    async with shaped(database, tmp_path, server, shape_domains=True) as outrider:
        made = [
            Submission(
                f"{domain}-{each}", NAME,
                {"to": f"p{each}@{domain}", "subject": "Hello", "body": "Hello"},
            )
            for domain in ("slow.test", "fast.test")
            for each in range(LETTERS)
        ]  # fmt: skip
        answers = await outrider.submissions.submit_all(DEFAULT_SCOPE, made)
        ids = [answer[0].outbox_id for answer in answers if isinstance(answer, tuple)]

        async def items() -> list[Item]:
            return await outrider.store.read(ledger_items.items(DEFAULT_SCOPE, ids))

        async def aside() -> bool:
            return any(each.waits_for == "domain_throttled" for each in await items())

        async with working(outrider):
            await eventually(lambda: server.count("fast.test") == LETTERS)
            await eventually(aside)
            server.deferred.clear()
            await eventually(lambda: server.count("slow.test") == LETTERS)

            async def all_sent() -> bool:
                return {each.status for each in await items()} == {"sent"}

            await eventually(all_sent)
        assert {each.attempts for each in await items()} == {1}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_without_settings_domains_are_not_told_apart(database: str, tmp_path: Path) -> None:
    server = DomainServer()
    async with shaped(database, tmp_path, server) as outrider:
        run_id = await launch(outrider, [MAIL], people_at("fast.test", 10))
        assert (await work_until_terminal(outrider, run_id)).sent == 10
        assert "mail_providers" not in vars(outrider), "nobody asked DNS"


async def test_a_stopped_worker_does_not_wait_for_a_domain(database: str, tmp_path: Path) -> None:
    server = DomainServer()
    server.deferred["slow.test"] = BUSY
    async with shaped(database, tmp_path, server, shape_domains=True) as outrider:
        await launch(outrider, [MAIL], people_at("slow.test", 20))
        async with asyncio.timeout(WAIT_SECONDS):
            async with working(outrider):
                await eventually(lambda: server.asked["slow.test"])
