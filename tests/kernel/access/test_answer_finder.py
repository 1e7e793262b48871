"""Answers of keyed requests in a real Redis: found there, never decided there, and not missed."""

import re
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.access.answer_finder import AnswerFinder
from outrider.ports.idempotency import OtherRequest, StoredAnswer
from outrider.stores.redis_answers import RedisAnswers
from outrider.testing.clock import FakeClock
from outrider.testing.idempotency_suite import CREATED, ODD_KEYS, REFUSED, TTL_SECONDS, named
from tests.support.redis_server import running_redis

REST_SECONDS = 5.0


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with running_redis() as server:
        yield server.url


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator["Redis"]:
    client = Redis.from_url(redis_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def answers(redis_url: str, redis: "Redis") -> AsyncIterator[RedisAnswers]:  # noqa: ARG001
    made = RedisAnswers(redis_url, TTL_SECONDS)
    yield made
    await made.close()


async def test_the_first_answer_is_found_unchanged_until_it_expires(
    answers: RedisAnswers, redis: "Redis"
) -> None:
    assert await answers.find(named()) is None
    await answers.put(named(), CREATED)
    await answers.put(named(), REFUSED)
    assert await answers.find(named()) == CREATED
    assert await answers.find(named(fingerprint="other")) == OtherRequest()
    [name] = await redis.keys("*")
    assert 0 < await redis.ttl(name) <= TTL_SECONDS


async def test_any_text_is_a_distinct_key_that_redis_does_not_see(
    answers: RedisAnswers, redis: "Redis"
) -> None:
    for number, key in enumerate(ODD_KEYS):
        await answers.put(named(key), StoredAnswer(200, "", str(number)))
    for number, key in enumerate(ODD_KEYS):
        assert await answers.find(named(key)) == StoredAnswer(200, "", str(number))
    prefix = f"outrider:answer:{DEFAULT_SCOPE.tenant_id}:{DEFAULT_SCOPE.workspace_id}:"
    for name in await redis.keys("*"):
        assert isinstance(name, bytes)
        assert re.fullmatch(f"{prefix}[0-9a-f]{{64}}", name.decode())


async def test_a_foreign_record_is_ignored(answers: RedisAnswers, redis: "Redis") -> None:
    await answers.put(named(), CREATED)
    [name] = await redis.keys("*")
    await redis.set(name, b"something else")
    assert await answers.find(named()) is None


async def test_an_unavailable_redis_is_not_asked_for_a_while_and_then_used_again() -> None:
    """C2: it may be away, and costs one request its patience, not every one."""
    clock = FakeClock()
    with running_redis() as server:
        url = server.url
        answers = RedisAnswers(url, TTL_SECONDS)
        finder = AnswerFinder(answers, clock, REST_SECONDS)
        await finder.put(named(), CREATED)
        assert await finder.find(named()) == CREATED
        assert not await finder.is_away()
    with pytest.raises(StoreUnavailable, match="Redis"):
        await answers.find(named())
    assert await finder.find(named()) is None
    assert await finder.is_away()
    with running_redis(at=url):
        assert await finder.is_away(), "it rests"
        clock.advance(REST_SECONDS)
        assert not await finder.is_away()
        await finder.put(named(), CREATED)
        assert await finder.find(named()) == CREATED
    await finder.close()


async def test_without_a_redis_nothing_is_found_and_nothing_is_away() -> None:
    finder = AnswerFinder(None, FakeClock(), REST_SECONDS)
    await finder.put(named(), CREATED)
    assert await finder.find(named()) is None
    assert not await finder.is_away()
    await finder.close()


def test_a_url_that_is_none_of_redis_is_refused_without_being_repeated() -> None:
    with pytest.raises(InvalidInput) as refused:
        RedisAnswers("http://user:hunter2@localhost", TTL_SECONDS)
    assert "hunter2" not in refused.value.message
    assert "redis://" in str(refused.value.hint)


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(InvalidInput) as refused:
        RedisAnswers("redis://localhost", TTL_SECONDS)
    assert refused.value.hint == 'pip install "outrider[redis]"'
