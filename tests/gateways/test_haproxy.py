"""Real HAProxy with the example configuration between Outrider and two providers.

A message that a backend had received and not answered when it died must not be called again:
HAProxy has only the other backend left, and that one never heard of the reference. So the two
together remember nothing, no target declares that they do, and such a message is in doubt (B3).
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import Accepted, AttemptError, Progress
from outrider.domain.ids import RunId
from outrider.domain.outbox import Accounting
from outrider.domain.states import Channel
from outrider.gateways.http_client import HttpClient
from outrider.gateways.json_family import sms_gateway
from outrider.gateways.sandbox import Faults, Sandbox, references_delivered
from outrider.kernel.transactions import ledger_items
from outrider.testing.launches import launch, message, observe, people, target
from tests.support.broken_server import closed_port, reservation
from tests.support.whole_runs import items_of, opened, working

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
CONFIGURATION = Path(__file__).parents[2] / "examples/haproxy/haproxy.cfg"
READY_SECONDS = 60.0
RECIPIENTS = 400
BEFORE_THE_KILL = 40

pytestmark = pytest.mark.skipif(
    HAPROXY is None,
    reason="NOT TESTED: haproxy is not installed; run `apt-get install haproxy` and test again",
)


@asynccontextmanager
async def haproxy(backend_a: str, backend_b: str) -> AsyncIterator[str]:
    """The URL of the example's frontend, with these two backends behind it."""
    assert HAPROXY is not None
    frontend = f"127.0.0.1:{closed_port()}"
    backends = {"SANDBOX_A": _authority(backend_a), "SANDBOX_B": _authority(backend_b)}
    process = await asyncio.create_subprocess_exec(
        HAPROXY, "-db", "-f", CONFIGURATION, env={**os.environ, "FRONTEND": frontend, **backends}
    )
    try:
        await _until_it_forwards(f"http://{frontend}", process)
        yield f"http://{frontend}"
    finally:
        process.kill()
        await process.wait()


def _authority(url: str) -> str:
    return url.removeprefix("http://")


async def _until_it_forwards(url: str, process: asyncio.subprocess.Process) -> None:
    """An unknown path is answered by HAProxy itself, as soon as it listens."""
    async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession() as session:
        while True:
            assert process.returncode is None, "haproxy ended; its reason is above"
            try:
                async with session.get(url) as answer:
                    assert answer.status == 404
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.01)


class Provider:
    """A sandbox in a process of its own, which can be killed as a machine can."""

    def __init__(self, log: Path) -> None:
        self.log = log
        command = [sys.executable, "-m", "outrider", "sandbox", "--port", "0", "--smtp-port", "0"]
        self.process = subprocess.Popen(
            [*command, "--log", str(log), "--latency-ms", "20", "--json"], stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.url: str = msgspec.json.decode(self.process.stdout.readline())["http"]

    async def has_received(self, requests: int) -> None:
        while True:
            if self.log.read_bytes().count(b"\n") >= requests:
                return
            await asyncio.sleep(0.001)


@contextmanager
def two_providers(folder: Path) -> Iterator[tuple[Provider, Provider]]:
    providers = Provider(folder / "a.log"), Provider(folder / "b.log")
    try:
        yield providers
    finally:
        for provider in providers:
            provider.process.kill()
            provider.process.communicate()


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.close()


def entry(url: str) -> dict[str, object]:
    return target("sms", "sms", url, maxAttempts=100)


async def at_rest(outrider: Outrider, run_id: RunId) -> Accounting:
    """All is terminal or in doubt."""
    async with asyncio.timeout(READY_SECONDS):
        while True:
            _, accounting = await observe(outrider, run_id)
            if accounting.waiting == 0:
                return accounting
            await asyncio.sleep(0.01)


def reference(number: int) -> str:
    return f"{number:064x}"


async def test_a_backend_killed_in_the_middle_of_a_launch_loses_nothing_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """B3: it used to be called again on the word of nobody, and could be received twice."""
    database = f"sqlite:///{tmp_path}/outrider.db"
    with two_providers(tmp_path) as (doomed, spared):
        async with (
            haproxy(doomed.url, spared.url) as url,
            opened(database, tmp_path, entry(url), targets={}) as outrider,
        ):
            offer = message(Channel.SMS, "sms")
            run_id = await launch(outrider, [offer], people(RECIPIENTS), batch_size=100)
            async with working(outrider):
                async with asyncio.timeout(READY_SECONDS):
                    await doomed.has_received(BEFORE_THE_KILL)
                doomed.process.kill()
                accounting = await at_rest(outrider, run_id)
            items = {item.reference: item for item in (await items_of(outrider, run_id)).values()}
            attempts = {
                item.reference: await outrider.store.read(ledger_items.attempts_of(item.id))
                for item in items.values()
            }
    assert accounting.sent + accounting.in_doubt == accounting.intended == RECIPIENTS
    by_doomed, by_spared = references_delivered(doomed.log), references_delivered(spared.log)
    assert by_doomed, "the backend was killed before it did anything"
    assert set(by_doomed.values()) | set(by_spared.values()) == {1}
    assert not by_doomed.keys() & by_spared.keys(), "received twice"
    unanswered = {
        name
        for name, made in attempts.items()
        if any(attempt.progress == Progress.SENT_NO_ANSWER for attempt in made)
    }
    lost = items.keys() - by_doomed.keys() - by_spared.keys()
    assert lost <= unanswered, "nobody knows of it"
    assert {name for name, item in items.items() if item.doubted_at} == unanswered


async def test_a_post_that_was_received_and_not_answered_is_not_sent_again_by_haproxy(
    client: HttpClient,
) -> None:
    drop = Faults(drop_rate=1.0)
    async with (
        Sandbox(drop) as one,
        Sandbox(drop) as other,
        haproxy(one.http_url, other.http_url) as url,
    ):
        for number in range(10):
            result = await sms_gateway(url, client).call(reservation(reference=reference(number)))
            # A 502, or on a kept line nothing at all: HAProxy leaves it to us to know better.
            assert isinstance(result, AttemptError)
            assert result.progress is Progress.SENT_NO_ANSWER
        assert one.requests + other.requests == 10


async def test_a_backend_that_is_down_uses_up_no_attempt(client: HttpClient) -> None:
    async with (
        Sandbox() as sandbox,
        haproxy(f"http://127.0.0.1:{closed_port()}", sandbox.http_url) as url,
    ):
        for number in range(20):
            result = await sms_gateway(url, client).call(reservation(reference=reference(number)))
            assert isinstance(result, Accepted)
        assert sandbox.received()["delivered"] == 20


async def test_the_same_reference_goes_to_the_same_backend(client: HttpClient) -> None:
    async with (
        Sandbox() as one,
        Sandbox() as other,
        haproxy(one.http_url, other.http_url) as url,
    ):
        for _ in range(3):
            for number in range(40):
                await sms_gateway(url, client).call(reservation(reference=reference(number)))
        assert one.received()["delivered"], "all went to the other backend"
        assert other.received()["delivered"], "all went to one backend"
        assert not one.deliveries.keys() & other.deliveries.keys()
