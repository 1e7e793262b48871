"""One tenant's worst does not reach another, over a real server. Audit lines X5 and X11."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from outrider.bootstrap import open_outrider
from outrider.domain.keys import KeyScope
from outrider.settings import Settings
from tests.support import tenant_attacks
from tests.support.api_server import ApiServer, campaign, running_server

LOOKS = 100
NOISE_SECONDS = 0.06
HEALTHY_SECONDS = 0.1
COARSE_SECONDS = 0.5
LOAD_PER_CORE = 1.5
"""Beyond it, what others do on this machine moves a p99 as much as what is looked for."""
BEGIN_SECONDS = 60.0
SENT_SECONDS = 10.0


@dataclass
class Latencies:
    """Of one kind of request, in seconds."""

    taken: list[float] = field(default_factory=list)

    @property
    def p99(self) -> float:
        return sorted(self.taken)[max(0, int(len(self.taken) * 0.99) - 1)]


@dataclass
class Tenant:
    """Another one, who does what everybody does, and takes the time."""

    server: ApiServer
    key: str
    campaign_id: str

    @classmethod
    async def settled(cls, server: ApiServer, key: str) -> "Tenant":
        made = await server.post("/campaigns", campaign(), key=key)
        return cls(server, key, str(made["campaignId"]))

    async def measured(self) -> dict[str, Latencies]:
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "health": lambda: self._ask("GET", "/healthz"),
            "read": lambda: self._ask("GET", "/campaigns"),
            "preview": lambda: self._ask("POST", f"/campaigns/{self.campaign_id}/preview"),
            "create": lambda: self._ask("POST", "/campaigns", campaign()),
        }
        found = {kind: Latencies() for kind in kinds}
        for _ in range(LOOKS):
            for kind, ask in kinds.items():
                began = time.perf_counter()
                await ask()
                found[kind].taken.append(time.perf_counter() - began)
        return found

    async def sent(self) -> float:
        """How long a campaign of two takes, from its start to its end."""
        made = await self.server.post("/campaigns", campaign(), key=self.key)
        self.server.key = self.key
        began = time.perf_counter()
        async with self.server.stream(made["campaignId"]) as events:
            await self.server.post(f"/campaigns/{made['campaignId']}/phases/launch/start")
            while (await events.next(SENT_SECONDS)).type != "phase_completed":
                pass
        return time.perf_counter() - began

    async def _ask(self, method: str, path: str, body: object = None) -> None:
        answer = await self.server.request(method, path, body, key=self.key)
        assert answer.status in (200, 201), answer.body


@asynccontextmanager
async def attacked(
    server: ApiServer, key: str, name: str, *arguments: int
) -> AsyncIterator[asyncio.StreamReader]:
    """Somebody is at it for as long as the block; what they say of it comes line by line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", tenant_attacks.__name__, name, server.url, key, *map(str, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(BEGIN_SECONDS):
            assert await process.stdout.readline() == b"begun\n"
        yield process.stdout
    finally:
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def two_tenants(folder: Path, database: str) -> AsyncIterator[tuple[ApiServer, Tenant, str]]:
    """A server, one tenant at rest, and the key of another one."""
    keys = []
    async with open_outrider(Settings(database_url=database)) as outrider:
        for name in ("quiet", "loud"):
            keeper = outrider.key_keeper
            scope = await keeper.open_workspace(name, "project", "test")
            _, key = await keeper.create(scope, name, [KeyScope.OPERATE], "test")
            keys.append(key)
    quiet, loud = keys
    async with running_server(folder, database=database) as server:
        yield server, await Tenant.settled(server, quiet), loud


def p99s(found: dict[str, Latencies]) -> dict[str, float]:
    return {kind: round(each.p99, 4) for kind, each in found.items()}


def assert_unmoved(idle: dict[str, Latencies], busy: dict[str, Latencies]) -> None:
    """Within twice what it was, or a little more where that is next to nothing."""
    for kind, before in idle.items():
        most = max(2 * before.p99, before.p99 + NOISE_SECONDS)
        assert busy[kind].p99 <= most, (kind, p99s(idle), p99s(busy))


@pytest.mark.storm
@pytest.mark.parametrize(
    ("attack", "arguments"),
    [
        ("template_bomb", ()),
        ("long_templates", ()),
        ("heavy_reads", ()),
        ("stream_hog", ()),
        ("bad_file", (300,)),
        ("good_file", (20,)),
    ],
)
async def test_a_tenants_worst_behaviour_does_not_slow_down_another(
    database: str, tmp_path: Path, attack: str, arguments: tuple[int, ...]
) -> None:
    """X5, X11: a preview of 160 s, uploads of 16 s, reads of 7 s, `/healthz` of 92 s."""
    load_before = os.getloadavg()[0]
    async with two_tenants(tmp_path, database) as (server, tenant, loud):
        idle = await tenant.measured()
        async with attacked(server, loud, attack, *arguments):
            onset = await tenant.measured()
            steady = await tenant.measured()
        # For its first seconds a bomb is rendered like anybody's template, beside the server and
        # not behind it. Nobody waits in its line then either, but the machine is shared.
        for found in (onset, steady):
            assert max(each.p99 for each in found.values()) < COARSE_SECONDS, p99s(found)
            assert found["health"].p99 < HEALTHY_SECONDS, p99s(found)
        if (load := max(load_before, os.getloadavg()[0])) > LOAD_PER_CORE * (os.cpu_count() or 1):
            pytest.skip(
                f"the coarse bound holds; for the exact one the machine is too busy: {load}"
            )
        assert_unmoved(idle, steady)


async def test_a_campaign_is_sent_while_another_workspaces_template_bombs_are_rendered(
    database: str, tmp_path: Path
) -> None:
    """X5: it did not begin in 420 s."""
    async with two_tenants(tmp_path, database) as (server, tenant, loud):
        await tenant.sent()
        async with attacked(server, loud, "template_bomb"):
            taken = [await tenant.sent() for _ in range(10)]
        # A job that has begun is not stopped; it ends when its first bombs are found out.
        assert max(taken) < SENT_SECONDS
        assert sorted(taken)[len(taken) // 2] < 1.0


async def test_only_the_tenant_with_too_many_streams_is_refused(
    database: str, tmp_path: Path
) -> None:
    """X5: one read key took all 1,000 streams of the server."""
    async with (
        two_tenants(tmp_path, database) as (server, tenant, loud),
        attacked(server, loud, "stream_hog"),
    ):
        made = await server.post("/campaigns", campaign(), key=loud)
        path = f"/campaigns/{made['campaignId']}/events"
        refused = await server.request("GET", path, key=loud)
        while refused.json["error"]["code"] == "OVERLOADED":
            # The attack asks for streams all the while, and each of them is a read at first.
            await asyncio.sleep(0.2)
            refused = await server.request("GET", path, key=loud)
        assert (refused.status, refused.json["error"]["code"]) == (429, "TOO_MANY_STREAMS")
        await tenant.sent()
