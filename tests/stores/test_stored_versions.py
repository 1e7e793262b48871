"""Versions in everything stored, on both stores: what is read, what is dropped and folded again."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.contract_versions import CONTRACT_VERSION, SNAPSHOT_FORMAT
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.run_events import RunEvent
from outrider.domain.write_budget import WriteBudget
from outrider.files.event_spool import BAD, LocalSpool
from outrider.kernel.runs.projector import Projector
from outrider.kernel.runs.run_reader import RunReader
from outrider.kernel.work.job_step_recorder import StepRecorder
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.system import SystemIds
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import NOON, Workshop
from tests.support.foundations import foundation
from tests.support.raw_logs import (
    events_of,
    of_run,
    projected,
    snapshots_of,
    step,
    tell,
    watermark,
)
from tests.support.raw_sql import Raw, raw_sql

IDS = SystemIds()
LIMITS = Limits()
Document = dict[str, Any]


@pytest.fixture
async def raw(database: str, store: Store) -> AsyncIterator[Raw]:  # noqa: ARG001 - migrated first
    async with raw_sql(database) as opened:
        yield opened


@pytest.fixture
async def run_id(store: Store) -> RunId:
    """A run with a failed step, all of it projected."""
    run_id = await Workshop(store).launch(3, batch_size=1)
    await tell(store, run_id, of_run("Approved"), of_run("Started", engineRunRef="local/1"))
    error = {"code": "x", "message": "y", "retryable": False}
    await tell(store, run_id, step("Started", "a"), step("Failed", "a", payload={"error": error}))
    await Projector(foundation(store, clock=FakeClock(NOON), ids=IDS, limits=LIMITS)).project_once()
    return run_id


async def newest(raw: Raw, run_id: RunId) -> Document:
    (row,) = await raw.run(
        f"SELECT document FROM run_snapshots WHERE run_id = '{run_id}'"
        " ORDER BY last_event_seq DESC LIMIT 1"
    )
    found: Document = json.loads(row[0])
    return found


async def rewrite(raw: Raw, run_id: RunId, document: object) -> None:
    """As another version would have stored it."""
    (row,) = await raw.run(
        "SELECT last_event_seq, status, projected_at FROM run_snapshots"
        f" WHERE run_id = '{run_id}' ORDER BY last_event_seq DESC LIMIT 1"
    )
    await raw.run(f"DELETE FROM run_snapshots WHERE run_id = '{run_id}'")
    await raw.run(
        "INSERT INTO run_snapshots (run_id, last_event_seq, status, document, projected_at)"
        f" VALUES ('{run_id}', {row[0]}, '{row[1]}', '{json.dumps(document)}', '{row[2]}')"
    )


def with_more_fields(document: Document) -> Document:
    """One more optional field at every place that has fields."""
    (failed,) = (each for each in document["steps"] if each["stepId"] == "a")
    for place in (document, failed, failed["error"]):
        place["ofALaterVersion"] = {"x": 1}
    return document


def without_version(document: Document) -> Document:
    """As the version before stored it."""
    return {
        name: value
        for name, value in document.items()
        if name not in ("contractVersion", "snapshotFormat")
    }


def of_a_later_format(document: Document) -> Document:
    return {**document, "snapshotFormat": SNAPSHOT_FORMAT + 1, "steps": "elsewhere"}


def of_a_later_contract(document: Document) -> Document:
    return {**document, "contractVersion": "2.0", "steps": {}}


def of_a_later_minor_version(document: Document) -> Document:
    """With a word that is new in it."""
    major, minor = CONTRACT_VERSION.split(".")
    first, *others = document["steps"]
    steps = [{**first, "status": "DEFERRED"}, *others]
    return {**document, "contractVersion": f"{major}.{int(minor) + 1}", "steps": steps}


def of_no_format(document: Document) -> Document:
    return {**document, "snapshotFormat": []}


def without_steps(document: Document) -> Document:
    return {name: value for name, value in document.items() if name != "steps"}


def of_another_shape(document: Document) -> Document:
    return {**document, "steps": ["a"], "status": "CONFUSED"}


READABLE = (with_more_fields, without_version)
DAMAGED = (without_steps, of_another_shape, of_no_format)
LATER = (of_a_later_format, of_a_later_contract, of_a_later_minor_version)


async def test_stored_documents_have_their_version(store: Store, raw: Raw, run_id: RunId) -> None:
    """R7, D32."""
    document = await newest(raw, run_id)
    assert document["contractVersion"] == CONTRACT_VERSION
    assert document["snapshotFormat"] == SNAPSHOT_FORMAT
    versions = await raw.run(f"SELECT contract_version FROM run_events WHERE run_id = '{run_id}'")
    assert {version for (version,) in versions} == {CONTRACT_VERSION}
    assert {event.contract_version for event in await events_of(store, run_id)} == {
        CONTRACT_VERSION
    }


async def test_an_event_that_the_version_before_appends_has_its_version(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    """R7: a worker of the version before knows no such column, and may still be at work."""
    await raw.complete_runs()
    versions: dict[str, str] = {
        event.type: event.contract_version for event in await events_of(store, run_id)
    }
    assert versions["RunCompleted"] == "1.0"
    assert versions["RunStarted"] == CONTRACT_VERSION


@pytest.mark.parametrize("change", READABLE + DAMAGED + LATER)
async def test_no_stored_snapshot_hides_the_run(
    store: Store, raw: Raw, run_id: RunId, change: Any
) -> None:
    """R2: one more optional field in a stored snapshot was a 500 for ever."""
    await rewrite(raw, run_id, change(await newest(raw, run_id)))
    found = await RunReader(store, LIMITS).snapshot(DEFAULT_SCOPE, run_id)
    assert found == await projected(store, run_id)


@pytest.mark.parametrize("change", READABLE + DAMAGED + LATER)
async def test_no_stored_snapshot_stops_the_projector(
    store: Store, raw: Raw, run_id: RunId, change: Any
) -> None:
    """R2: projection of that run stopped."""
    await rewrite(raw, run_id, change(await newest(raw, run_id)))
    await tell(store, run_id, step("Started", "b"))
    await Projector(foundation(store, clock=FakeClock(NOON), ids=IDS, limits=LIMITS)).project_once()
    expected = await projected(store, run_id)
    assert await watermark(raw, run_id) == expected.last_event_seq
    (*_, latest) = (
        await raw.run(
            f"SELECT document FROM run_snapshots WHERE run_id = '{run_id}' ORDER BY last_event_seq"
        )
    )[-1]
    assert json.loads(latest)["lastEventSeq"] == expected.last_event_seq
    if change not in READABLE:
        assert await snapshots_of(raw, run_id) == [expected], "the unreadable one is gone"


@pytest.mark.parametrize("change", DAMAGED)
async def test_a_damaged_snapshot_of_a_run_that_ended_is_folded_again(
    store: Store, raw: Raw, run_id: RunId, change: Any
) -> None:
    """R2: nothing new comes to such a run, so whoever reads it says that it is behind."""
    await rewrite(raw, run_id, change(await newest(raw, run_id)))
    await RunReader(store, LIMITS).snapshot(DEFAULT_SCOPE, run_id)
    assert await watermark(raw, run_id) == 0
    await Projector(foundation(store, clock=FakeClock(NOON), ids=IDS, limits=LIMITS)).project_once()
    assert await snapshots_of(raw, run_id) == [await projected(store, run_id)]


@pytest.mark.parametrize("change", LATER)
async def test_a_reader_leaves_what_a_later_version_stored(
    store: Store, raw: Raw, run_id: RunId, change: Any
) -> None:
    """D32: while two versions run side by side, the later one's snapshots are not taken away."""
    later = change(await newest(raw, run_id))
    await rewrite(raw, run_id, later)
    await RunReader(store, LIMITS).snapshot(DEFAULT_SCOPE, run_id)
    assert await newest(raw, run_id) == later


# The spool


def spooled(run_id: RunId, plan_version: str, **more: object) -> bytes:
    """An entry as the version before wrote it."""
    event = {
        "type": "StepStarted", "step_id": "c", "logical_attempt": 1, "engine_attempt": 1,
        "payload": {}, "occurred_at": "2026-01-01T12:00:00Z",
    }  # fmt: skip
    entry = {"run_id": run_id, "plan_version": plan_version, "events": [event], **more}
    return json.dumps(entry).encode()


async def emptied(store: Store, folder: Path, content: bytes) -> int:
    spool = LocalSpool(folder, IDS)
    await spool.put(content)
    recorder = StepRecorder(
        foundation(store, clock=FakeClock(NOON), limits=LIMITS), spool, WriteBudget(), WorkerId("w")
    )
    return await recorder.reconcile_once()


async def of_step_c(store: Store, run_id: RunId) -> list[RunEvent]:
    return [each for each in await events_of(store, run_id) if each.step_id == "c"]


@pytest.mark.parametrize(
    ("more", "version"),
    [({}, "1.0"), ({"contractVersion": "1.1"}, "1.1"), ({"contractVersion": "1.7", "x": 1}, "1.7")],
)
async def test_entries_of_the_spool_are_read_across_minor_versions(
    store: Store, run_id: RunId, tmp_path: Path, more: dict[str, object], version: str
) -> None:
    """R7, D32: and their events keep the version that they were written under."""
    assert await emptied(store, tmp_path / "spool", spooled(run_id, "1", **more)) == 1
    (event,) = await of_step_c(store, run_id)
    assert event.contract_version == version


async def test_an_entry_of_another_major_version_is_set_aside(
    store: Store, run_id: RunId, tmp_path: Path
) -> None:
    """D32: it is neither misread nor thrown away."""
    folder = tmp_path / "spool"
    assert await emptied(store, folder, spooled(run_id, "1", contractVersion="2.0")) == 0
    assert await of_step_c(store, run_id) == []
    assert [file.suffix for file in folder.iterdir()] == [BAD]
