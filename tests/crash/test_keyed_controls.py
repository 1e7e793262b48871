"""C1: a keyed control survives the death of its server between any two statements of it.

The server is killed before the first statement of the control's transaction, before the second, and
so on to the last, and between its commit and its answer. Each time a client repeats the request
under the same key at a server that lives: there is one event, one transition and one answer.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from outrider.domain.ids import CampaignId
from outrider.testing.launches import target
from tests.crash.killed_server import AFTER_COMMIT
from tests.support.api_server import Answer, ApiServer, campaign, running_server
from tests.support.controls import lifecycle
from tests.support.whole_runs import opened

NOOP = target("noop", "noop", "noop:")
SEED = 20_261_117
STORM_KILLS = 500
STATEMENTS_MAX = 60
AT_ONCE_SECONDS = 5.0
"""Generous, and far less than a claim of a dead server used to be waited for."""


@dataclass
class Pair:
    """Two servers on one database; the first dies where the test says."""

    doomed: ApiServer
    living: ApiServer
    kill_at_file: Path

    async def killed_at(self, where: int, campaign_id: str, action: str, key: str) -> bool:
        """Call the doomed server; returns whether it died. It is restarted afterwards."""
        self.kill_at_file.write_text(str(where))
        try:
            answer = await act(self.doomed, campaign_id, action, key)
        except aiohttp.ClientError:
            self.kill_at_file.unlink()
            await self.doomed.kill()
            await self.doomed.start()
            return True
        assert answer.status == 200, answer.body
        return False


async def act(server: ApiServer, campaign_id: str, action: str, key: str) -> Answer:
    path = f"/campaigns/{campaign_id}/phases/launch/{action}"
    return await server.request("POST", path, headers={"X-Idempotency-Key": key})


@asynccontextmanager
async def two_servers(database: str, folder: Path) -> AsyncIterator[Pair]:
    kill_at = folder / "kill-at"
    environment = {"KILL_AT_FILE": str(kill_at), "OUTRIDER_ROOT_KEY": "a root key for the tests"}
    given = {"database": database, "environment": environment, "workers": 0}
    async with (
        running_server(folder, module="tests.crash.killed_server", **given) as doomed,  # type: ignore[arg-type]
        running_server(folder, **given) as living,  # type: ignore[arg-type]
    ):
        yield Pair(doomed, living, kill_at)


async def started(server: ApiServer) -> str:
    campaign_id: str = (await server.post("/campaigns", campaign()))["campaignId"]
    await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
    return campaign_id


async def repeated_elsewhere(pair: Pair, campaign_id: str, action: str, key: str) -> None:
    """The client's retry at the other server executes at once, or gets the earlier response."""
    began = time.monotonic()
    answer = await act(pair.living, campaign_id, action, key)
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert (answer.status, answer.json["changed"]) == (200, True), answer.body
    again = await act(pair.doomed, campaign_id, action, key)
    assert (again.status, again.body) == (200, answer.body)


async def test_a_server_killed_between_any_two_statements_leaves_nothing_or_the_answer(
    database: str, tmp_path: Path
) -> None:
    async with (
        two_servers(database, tmp_path) as pair,
        opened(database, tmp_path, NOOP) as outrider,
    ):
        campaign_id = await started(pair.living)
        expected = ["phase_started"]
        actions = itertools.cycle(["pause", "resume"])
        kills = 0
        # Every third boundary, and then after the commit: what each leaves is the same nothing.
        for where in (*range(1, STATEMENTS_MAX, 3), AFTER_COMMIT):
            action, key = next(actions), f"key-{where}"
            died = await pair.killed_at(where, campaign_id, action, key)
            kills += died
            expected.append(f"phase_{action}d")
            await repeated_elsewhere(pair, campaign_id, action, key)
            assert await lifecycle(outrider, CampaignId(campaign_id)) == expected
            if not died:
                assert where > 1
                break
        assert kills > 3


async def test_a_server_killed_after_its_commit_has_answered_through_the_next_one(
    database: str, tmp_path: Path
) -> None:
    async with (
        two_servers(database, tmp_path) as pair,
        opened(database, tmp_path, NOOP) as outrider,
    ):
        campaign_id = await started(pair.living)
        assert await pair.killed_at(AFTER_COMMIT, campaign_id, "pause", "once")
        answer = await act(pair.living, campaign_id, "pause", "once")
        assert (answer.status, answer.json["changed"]) == (200, True)
        assert answer.headers["Idempotency-Replayed"] == "true"
        await act(pair.living, campaign_id, "resume", "other")
        again = await act(pair.living, campaign_id, "pause", "once")
        assert again.body == answer.body
        events = await lifecycle(outrider, CampaignId(campaign_id))
        assert events == ["phase_started", "phase_paused", "phase_resumed"]


@pytest.mark.storm
async def test_a_storm_of_kills_never_executes_a_keyed_control_twice(
    database: str, tmp_path: Path
) -> None:
    """500 deaths, at every boundary there is; what a client repeats is done once, or told."""
    chance = random.Random(SEED)
    deaths: Counter[int] = Counter()
    boundaries = STATEMENTS_MAX
    async with (
        two_servers(database, tmp_path) as pair,
        opened(database, tmp_path, NOOP) as outrider,
    ):
        campaign_id = await started(pair.living)
        expected = ["phase_started"]
        actions = itertools.cycle(["pause", "resume"])
        for number in itertools.count():
            if deaths.total() == STORM_KILLS:
                break
            action, key = next(actions), f"key-{number}"
            where = chance.choice((*range(1, boundaries), AFTER_COMMIT))
            if await pair.killed_at(where, campaign_id, action, key):
                deaths[where] += 1
            else:
                boundaries = min(boundaries, where)
            pair.kill_at_file.unlink(missing_ok=True)
            expected.append(f"phase_{action}d")
            await repeated_elsewhere(pair, campaign_id, action, key)
        assert await lifecycle(outrider, CampaignId(campaign_id)) == expected, f"seed {SEED}"
    assert set(deaths) == {*range(1, boundaries), AFTER_COMMIT}, f"seed {SEED}"
    print(f"{deaths.total()} kills at {len(deaths)} boundaries, {len(expected) - 1} controls")
