"""The release before this one beside this one: its runs are finished, and each reads the other.

What it left is recorded in tests/previous; where its commit is in this clone it is run, too.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from outrider.domain.contract_versions import CONTRACT_VERSION, UNVERSIONED
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.projection import SnapshotStatus
from outrider.domain.snapshot_documents import stored_document
from outrider.domain.write_budget import WriteBudget
from outrider.files.event_spool import LocalSpool
from outrider.gateways.sandbox import references_delivered
from outrider.kernel.work.job_step_recorder import StepRecorder
from outrider.stores.sqlite import store as sqlite
from outrider.system import SystemIds
from tests.support.deployed_beside import (
    NOOP,
    RECIPIENTS,
    TARGET,
    Scene,
    launched,
    request,
    scene,
    until_run,
)
from tests.support.previous_release import NotHere, command, consumed, extracted, serving
from tests.support.raw_logs import events_of, projected
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, opened, work_until_terminal
from tests.unit.test_schemas import problems

RECORDED = Path(__file__).parents[1] / "previous"
RECORDED_RECIPIENTS = 20
Document = dict[str, Any]


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return extracted(tmp_path_factory.mktemp("previous"))
    except NotHere as error:
        pytest.skip(str(error))


@pytest.fixture
def left(tmp_path: Path) -> str:
    """The database that the previous release left, with a run in flight."""
    file = tmp_path / "left.db"
    connection = apsw.Connection(str(file))
    connection.execute((RECORDED / "database.sql").read_text())
    connection.close()
    return f"sqlite:///{file}"


def recorded(name: str) -> list[Document]:
    return [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]


def versionless(document: Document) -> Document:
    """As the previous release would write it."""
    versions = ("contractVersion", "snapshotFormat")
    return {name: value for name, value in document.items() if name not in versions}


# What it left


async def test_a_run_that_the_previous_release_left_in_flight_is_migrated_and_finished(
    left: str, tmp_path: Path
) -> None:
    """R7, D32."""
    async with opened(left, tmp_path, NOOP) as outrider:
        async with raw_sql(left) as raw:
            run_id = RunId(await raw.value("SELECT id FROM campaign_runs"))
            before = await raw.value("SELECT count(*) FROM run_events")
        accounting = await work_until_terminal(outrider, run_id)
        assert accounting.sent == RECORDED_RECIPIENTS
        assert (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds
        log = await events_of(outrider.store, run_id)
        versions = [event.contract_version for event in log]
        assert versions == [UNVERSIONED] * before + [CONTRACT_VERSION] * (len(log) - before)
        found = await outrider.run_reader.snapshot(DEFAULT_SCOPE, run_id)
        assert found == await projected(outrider.store, run_id)
        assert found.status is SnapshotStatus.COMPLETED
        await outrider.projector.project_once()
        async with raw_sql(left) as raw:
            rows = await raw.run("SELECT document FROM run_snapshots ORDER BY last_event_seq")
        assert json.loads(rows[-1][0]) == stored_document(found)


async def test_events_spooled_by_the_previous_release_are_appended(
    left: str, tmp_path: Path
) -> None:
    """R7, D32."""
    content = (RECORDED / "spooled.json").read_bytes()
    run_id = RunId(json.loads(content)["run_id"])
    async with opened(left, tmp_path, NOOP) as outrider:
        spool = LocalSpool(tmp_path / "left-spool", SystemIds())
        await spool.put(content)
        recorder = StepRecorder(
            replace(outrider.foundation, limits=IMPATIENT), spool, WriteBudget(), WorkerId("w")
        )
        assert await recorder.reconcile_once() == 1
        (event,) = [e for e in await events_of(outrider.store, run_id) if e.step_id == "spooled"]
        assert event.contract_version == UNVERSIONED


def test_a_consumer_of_this_release_reads_events_of_the_previous_one() -> None:
    """R7, D32."""
    told = recorded("events.ndjson")
    assert told
    assert [problem for each in told for problem in problems("cloud-event", each)] == []
    (snapshot,) = consumed(None, "events", told)
    assert snapshot["status"] == "RUNNING"
    assert snapshot["lastEventSeq"] == told[-1]["data"]["runSeq"]
    stored = recorded("snapshots.ndjson")
    assert [problem for each in stored for problem in problems("run-snapshot", each)] == []
    assert [versionless(each) for each in consumed(None, "snapshots", stored)] == stored


def test_the_recording_is_of_an_earlier_schema() -> None:
    """The fixture really is older than this release: its migrations are a part of ours."""
    names = re.findall(
        r"INSERT INTO schema_migrations VALUES\('(\w+)'", (RECORDED / "database.sql").read_text()
    )
    ours = [migration.name for migration in sqlite.MIGRATIONS]
    assert names == ours[: len(names)]
    assert len(names) < len(ours)


# Both of them, live


@pytest.mark.empty_database
async def test_the_previous_release_starts_a_run_and_this_one_finishes_it(
    database: str, tmp_path: Path, previous: Path
) -> None:
    """R7, D32: over real HTTP, with one provider and one receiver of events for both."""
    async with scene(tmp_path, database) as scenery:
        run_id = await begun_and_ended(scenery, tmp_path, previous)
        delivered = references_delivered(tmp_path / "received.ndjson")
        assert len(delivered) == RECIPIENTS
        assert set(delivered.values()) == {1}, "nobody was sent to twice"
        heard = {each["id"]: each for each in scenery.heard}
    told = sorted(heard.values(), key=lambda each: each["sequence"])
    assert [problem for each in told for problem in problems("cloud-event", each)] == []
    versions = [each["data"].get("contractVersion", UNVERSIONED) for each in told]
    assert sorted(set(versions)) == versions[:: len(versions) - 1], "first the one, then the other"
    ours = consumed(None, "events", told)
    theirs = consumed(previous, "events", told)
    assert [versionless(each) for each in ours] == theirs, "both understand the same"
    assert theirs[0]["status"] == "COMPLETED"
    async with raw_sql(database) as raw:
        rows = await raw.run(f"SELECT document FROM run_snapshots WHERE run_id = '{run_id}'")
    stored = [json.loads(row[0]) for row in rows]
    assert CONTRACT_VERSION in {each.get("contractVersion") for each in stored}
    read = consumed(previous, "snapshots", stored)
    assert read == [versionless(each) for each in stored], "it reads what this one stored"


async def begun_and_ended(scenery: Scene, folder: Path, previous: Path) -> str:
    await command(previous, scenery.settings, "migrate")
    async with serving(previous, scenery.settings, folder, folder / "previous.log") as server:
        run_id = await launched(server)
        left = await until_run(server, run_id, sent=1)
        await server.stop()
    assert left["accounting"]["sent"] < RECIPIENTS, "it was in flight"
    await command(None, scenery.settings, "migrate")
    remembers = {TARGET: {"remembers_references": "for_good"}}
    settings = {**scenery.settings, "OUTRIDER_TARGETS": json.dumps(remembers)}
    async with serving(None, settings, folder, folder / "this.log") as server:
        await until_run(server, run_id, sent=RECIPIENTS)
        await scenery.until_heard(run_id, "RunCompleted")
        certificate = await request(server, "GET", f"/runs/{run_id}/certificate")
        await server.stop()
    assert certificate["holds"], certificate
    return run_id
