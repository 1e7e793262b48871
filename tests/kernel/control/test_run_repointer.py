"""A run whose gateway is elsewhere now: it says what it waits for, and what may move is moved."""

import asyncio
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.bootstrap import Outrider
from outrider.cli.app import app
from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import DEFAULT_SCOPE, RunId, Scope, TenantId, WorkerId, WorkspaceId
from outrider.domain.states import Channel
from outrider.engines.local import local_reference
from outrider.gateways.sandbox import Faults, Sandbox, references_delivered
from outrider.kernel.transactions import audit_trail, contract_documents, repointing
from outrider.kernel.transactions.claims import ClaimedJob, Claimer
from outrider.kernel.transactions.paging import FIRST
from outrider.settings import TargetSettings
from outrider.testing.claims import claim_any
from outrider.testing.launches import (
    WATCH_SECONDS,
    launch,
    message,
    people,
    registry,
    target,
)
from tests.support.broken_server import closed_port
from tests.support.deployment import deployed
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import items_of, opened, work_until_terminal, working

TARGET = "sms.all"
PEOPLE = 24
BATCH = 4
SOON = TargetSettings(
    breaker_failures=2, breaker_seconds=0.3, concurrency=2, retry_first_seconds=0.1,
    remembers_references="for_good",
)  # fmt: skip
ELSEWHERE = Scope(
    TenantId("00000000-0000-7000-8000-0000000000aa"),
    WorkspaceId("00000000-0000-7000-8000-0000000000bb"),
)


def sms(url: str, **terms: object) -> dict[str, object]:
    return target(TARGET, "sms", url, **terms)  # type: ignore[arg-type]


def put(outrider: Outrider, url: str) -> None:
    outrider.registry_keeper.replace(registry(sms(url)))


async def launched(outrider: Outrider) -> RunId:
    return await launch(outrider, [message(Channel.SMS, TARGET)], people(PEOPLE), batch_size=BATCH)


async def explained(outrider: Outrider, run_id: RunId, scope: Scope = DEFAULT_SCOPE) -> str:
    return " ".join(await outrider.run_explainer.explain(scope, run_id))


async def until_explained(outrider: Outrider, run_id: RunId, words: str) -> str:
    async with asyncio.timeout(60):
        while True:
            told = await explained(outrider, run_id)
            if words in told:
                return told
            await asyncio.sleep(WATCH_SECONDS)


async def test_a_run_says_which_target_and_address_it_waits_for_and_can_be_moved(
    database: str, tmp_path: Path
) -> None:
    """U2: it kept its launch-time URL for good, and explain said to start a worker."""
    wrong = f"http://127.0.0.1:{closed_port()}"
    log = tmp_path / "received.ndjson"
    async with (
        Sandbox(log_path=log) as sandbox,
        opened(database, tmp_path, sms(wrong), targets={TARGET: SOON}) as outrider,
    ):
        run_id = await launched(outrider)
        async with working(outrider):
            told = await until_explained(outrider, run_id, "is down (since")
        assert f"The target {TARGET} at {wrong} is down (since" in told
        assert "outrider work" not in told
        assert "repoint" not in told
        put(outrider, sandbox.http_url)
        told = await explained(outrider, run_id)
        assert f"The registry has {TARGET} at {sandbox.http_url} now" in told
        assert f"`outrider run repoint {run_id}`" in told
        tried = {
            item.recipient_id
            for item in (await items_of(outrider, run_id)).values()
            if item.attempts
        }
        assert len(tried) < PEOPLE
        (done,) = await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test")
        assert (done.from_url, done.to_url) == (wrong, sandbox.http_url)
        # No connection was ever made there, so nothing can have arrived.
        assert (done.jobs, done.kept, done.busy_jobs) == (PEOPLE // BATCH, 0, 0)
        accounting = await work_until_terminal(outrider, run_id)
        assert accounting.sent == PEOPLE
        assert set(references_delivered(log).values()) == {1}
        audit = audit_trail.audit_of_run(DEFAULT_SCOPE, run_id, FIRST, 100)
        assert "run.repointed" in {entry.event for entry in await outrider.store.read(audit)}


async def test_what_a_provider_may_have_is_never_sent_through_another(
    database: str, tmp_path: Path
) -> None:
    """U2: a silence is asked about where it was, and nowhere else."""
    logs = tmp_path / "first.ndjson", tmp_path / "second.ndjson"
    async with (
        Sandbox(Faults(drop_rate=1), log_path=logs[0]) as first,
        Sandbox(log_path=logs[1]) as second,
        opened(database, tmp_path, sms(first.http_url), targets={TARGET: SOON}) as outrider,
    ):
        run_id = await launched(outrider)
        async with working(outrider), asyncio.timeout(60):
            while not await silent(outrider, run_id):  # noqa: ASYNC110
                await asyncio.sleep(WATCH_SECONDS)
        put(outrider, second.http_url)
        await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test")
        first.faults.drop_rate = 0
        accounting = await work_until_terminal(outrider, run_id)
        assert accounting.sent == PEOPLE
    there, here = references_delivered(logs[0]), references_delivered(logs[1])
    assert there
    assert here
    assert set(Counter(there) + Counter(here)) == set(there) | set(here)
    assert set(there).isdisjoint(here), "nobody was sent to by both"
    assert set((there + here).values()) == {1}
    assert len(there + here) == PEOPLE


async def claimed(outrider: Outrider) -> ClaimedJob:
    """One job, with another worker."""
    now = outrider.clock.now()
    lease = now + timedelta(minutes=1)
    claimer = Claimer(WorkerId("another"), lease, local_reference, outrider.ids)
    (job,) = await claim_any(outrider.store, claimer, 1, now)
    assert isinstance(job, ClaimedJob)
    return job


async def silent(outrider: Outrider, run_id: RunId) -> bool:
    items = (await items_of(outrider, run_id)).values()
    return any(item.attempts and item.status == "queued" for item in items)


async def test_a_job_that_a_worker_holds_is_not_moved_under_it(
    database: str, tmp_path: Path
) -> None:
    """U2: the worker has its contract, and writes down that it was called under that one."""
    async with opened(database, tmp_path, sms("http://one.test")) as outrider:
        run_id = await launched(outrider)
        job = await claimed(outrider)
        put(outrider, "http://two.test")
        (done,) = await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test")
        assert (done.jobs, done.busy_jobs) == (PEOPLE // BATCH - 1, 1)
        found = await outrider.store.read(repointing.contracts_of(run_id))
        assert sorted((each.waiting_jobs, each.busy_jobs) for each in found) == [
            (0, 1),
            (PEOPLE // BATCH - 1, 0),
        ]
        async with raw_sql(database) as raw:
            kept = await raw.value(f"SELECT contract_id FROM job_queue WHERE id = '{job.id}'")
        assert kept == job.contract_id
        assert await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test") != []


async def test_a_job_that_waits_to_be_queued_again_is_moved_with_the_others(
    database: str, tmp_path: Path
) -> None:
    """U2: a job that had failed once was passed over, and said by nobody to be so."""
    async with opened(database, tmp_path, sms("http://one.test")) as outrider:
        run_id = await launched(outrider)
        async with raw_sql(database) as raw:
            await raw.run(f"UPDATE job_queue SET status = 'failed' WHERE run_id = '{run_id}'")
        put(outrider, "http://two.test")
        assert f"`outrider run repoint {run_id}`" in await explained(outrider, run_id)
        (done,) = await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test")
        assert (done.jobs, done.busy_jobs) == (PEOPLE // BATCH, 0)


async def test_only_the_address_moves_and_the_terms_stay(database: str, tmp_path: Path) -> None:
    """U2: the run keeps the contract that it was launched under in all but where it goes."""
    async with opened(database, tmp_path, sms("http://one.test", maxAttempts=7)) as outrider:
        run_id = await launched(outrider)
        outrider.registry_keeper.replace(registry(sms("http://two.test", maxAttempts=1)))
        await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test")
        (found,) = await outrider.store.read(repointing.contracts_of(run_id))
        text = await outrider.store.read(contract_documents.contract_document(found.contract_id))
        document = json.loads(text)
        assert (document["gatewayUrl"], document["maxAttempts"]) == ("http://two.test", 7)
        assert await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test") == []


async def test_what_cannot_be_moved_is_refused(database: str, tmp_path: Path) -> None:
    """U2."""
    async with opened(database, tmp_path, sms("http://one.test")) as outrider:
        run_id = await launched(outrider)
        with pytest.raises(NotFound):
            await outrider.run_repointer.repoint(ELSEWHERE, run_id, "test")
        push = target(TARGET, "push", "http://two.test")
        outrider.registry_keeper.replace(registry(push))
        with pytest.raises(Conflict, match="push instead of sms"):
            await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test")
        (found,) = await outrider.store.read(repointing.contracts_of(run_id))
        assert found.waiting_jobs == PEOPLE // BATCH
        async with raw_sql(database) as raw:
            await raw.complete_runs()
        with pytest.raises(Conflict, match="completed"):
            await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test")


async def test_a_missing_worker_is_reported_for_due_work_that_is_not_held(
    database: str, tmp_path: Path
) -> None:
    """U2: explain advised to start a worker while two ran."""
    async with opened(database, tmp_path, sms("http://one.test")) as outrider:
        first = await launched(outrider)
        told = await explained(outrider, first)
        assert f"Its messages go to {TARGET} at http://one.test." in told
        assert "no worker is running. Start a worker with `outrider work`" in told
        await claimed(outrider)
        second = await launched(outrider)
        told = await explained(outrider, second)
        assert "no worker is running" not in told
        assert "outrider work" not in told


async def test_a_paused_target_is_named(database: str, tmp_path: Path) -> None:
    """U2."""
    async with opened(database, tmp_path, sms("http://one.test")) as outrider:
        run_id = await launched(outrider)
        await outrider.target_keeper.pause(DEFAULT_SCOPE, TARGET, "ada")
        told = await explained(outrider, run_id)
        assert "has been paused by ada since" in told
        assert f"`outrider target resume {TARGET}`" in told
        assert "outrider work" not in told


async def test_the_command_says_what_it_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U2: `outrider run repoint`."""
    database = f"sqlite:///{tmp_path}/outrider.db"
    async with opened(database, tmp_path, sms("http://one.test")) as outrider:
        run_id = await launched(outrider)
        put(outrider, "http://two.test")
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", database)
    monkeypatch.setenv("OUTRIDER_REGISTRY", str(tmp_path / "registry.json"))
    result = await asyncio.to_thread(CliRunner().invoke, app, ["run", "repoint", run_id, "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["changed"]
    assert answer["targets"] == [
        {"submissionTarget": TARGET, "fromUrl": "http://one.test", "toUrl": "http://two.test",
         "jobs": PEOPLE // BATCH, "kept": 0, "busyJobs": 0}
    ]  # fmt: skip


async def test_over_http_other_workspaces_see_neither_the_run_nor_addresses(
    tmp_path: Path,
) -> None:
    """U2: where a gateway is belongs to who runs the server."""
    async with deployed(
        tmp_path, f"sqlite:///{tmp_path}/outrider.db", [sms("http://one.test")], workers_of_server=0
    ) as deployment:
        server = deployment.server
        theirs = await deployment.key_of("acme/shop/live")
        own, other = (
            await deployment.launch(TARGET, 3),
            await deployment.launch(TARGET, 3, key=theirs),
        )
        answer = await server.request(
            "PUT", "/registry", json.loads(registry(sms("http://two.test")))
        )
        assert answer.status == 200, answer.body
        refused = await server.request("POST", f"/runs/{own.run_id}/repoint", key=theirs)
        assert refused.status == 404
        told = await server.request("GET", f"/runs/{other.run_id}/explain", key=theirs)
        assert f"outrider run repoint {other.run_id}" in " ".join(told.json["sentences"])
        moved = await server.request("POST", f"/runs/{other.run_id}/repoint", key=theirs)
        assert (moved.status, moved.json["changed"]) == (200, True)
        for seen in (told, moved):
            assert b"one.test" not in seen.body
            assert b"two.test" not in seen.body
        done = await server.post(f"/runs/{own.run_id}/repoint")
        assert done["targets"][0]["toUrl"] == "http://two.test"
        audit = await server.request("GET", f"/audit?runId={other.run_id}", key=theirs)
        assert b"run.repointed" in audit.body
        assert b"two.test" not in audit.body
