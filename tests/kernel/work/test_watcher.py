"""The watcher: what stands still has an open alert, and what moves again has none."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId, Scope, WorkspaceId
from outrider.domain.phases import Action
from outrider.domain.times import rfc3339
from outrider.files.event_spool import LocalSpool
from outrider.kernel.transactions import run_snapshots, watching
from outrider.kernel.transactions.alerts import (
    LAST,
    Alert,
    AlertCode,
    AlertRecord,
    alerts_page,
    raise_alert,
)
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.work.watcher import Look
from outrider.testing.launches import target
from outrider.testing.store_suite.workshop import ONE, Workshop
from tests.support.controls import begun, control, created
from tests.support.eventually import eventually
from tests.support.raw_sql import Raw, raw_sql
from tests.support.whole_runs import IMPATIENT, SteppedClock, opened, work_until_terminal

NOOP = target("sms.all", "noop", "noop:")
STALL = IMPATIENT.watcher_stall_seconds


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def outrider(database: str, tmp_path: Path, clock: SteppedClock) -> AsyncIterator[Outrider]:
    async with opened(database, tmp_path, NOOP, clock=clock) as outrider:
        yield outrider


async def open_alerts(outrider: Outrider) -> dict[str, AlertRecord]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
    return {alert.code: alert for alert in await outrider.store.read(page)}


async def lags(outrider: Outrider) -> list[str]:
    return [code for code in await open_alerts(outrider) if code == "PROJECTOR_LAG_HIGH"]


async def test_a_projection_lag_is_reported_without_a_projector_and_resolves_itself(
    outrider: Outrider, clock: SteppedClock
) -> None:
    """R1: only a projector that worked ever raised it."""
    run_id = await begun(outrider, await created(outrider, 5))
    clock.advance(4.9)
    await outrider.watcher.look_once()
    assert await lags(outrider) == [], "late, but not yet too late"
    clock.advance(0.2)
    await outrider.watcher.look_once()
    alert = (await open_alerts(outrider))["PROJECTOR_LAG_HIGH"]
    assert (alert.subject, alert.severity, alert.times) == (run_id, "P2", 1)
    await outrider.watcher.look_once()
    assert (await open_alerts(outrider))["PROJECTOR_LAG_HIGH"].times == 1, "not at every look"
    await outrider.projector.project_once()
    await outrider.watcher.look_once()
    assert await lags(outrider) == []


async def test_a_lag_caught_up_by_a_full_visit_is_no_longer_reported(
    database: str, tmp_path: Path, clock: SteppedClock
) -> None:
    """R1: after a visit that fetched exactly as much as one may, the alert stood for ever."""
    limits = replace(IMPATIENT, projector_page_events=1, projector_delta_events=1)
    async with opened(database, tmp_path, NOOP, clock=clock, limits=limits) as outrider:
        await begun(outrider, await created(outrider, 5))
        clock.advance(6)
        assert await outrider.projector.project_once() == 1
        assert await lags(outrider) == ["PROJECTOR_LAG_HIGH"]
        assert await outrider.store.read(run_snapshots.behind(FIRST, 10)) == []
        await outrider.watcher.look_once()
        assert await lags(outrider) == []


async def test_a_stuck_projector_is_reported_by_the_watcher_beside_it(
    database: str, tmp_path: Path
) -> None:
    """R1: in the process itself, with the real loops."""
    limits = replace(IMPATIENT, watcher_seconds=0.05, projector_lag_alert_seconds=0.2)
    async with opened(database, tmp_path, NOOP, limits=limits) as outrider:
        stuck = asyncio.Event()

        async def hang() -> int:
            await stuck.wait()
            return 0

        outrider.projector.project_once = hang  # type: ignore[method-assign]
        await begun(outrider, await created(outrider, 5))
        keeping = asyncio.create_task(outrider.background_loops.run())
        try:

            async def is_so() -> bool:
                return "PROJECTOR_LAG_HIGH" in await open_alerts(outrider)

            await eventually(is_so, seconds=30)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def test_a_run_without_a_worker_is_reported_until_it_has_one(
    outrider: Outrider, clock: SteppedClock
) -> None:
    run_id = await begun(outrider, await created(outrider, 5))
    clock.advance(outrider.limits.run_stall_seconds - 1)
    await outrider.watcher.look_once()
    found = await open_alerts(outrider)
    assert "RUN_STALLED" not in found
    assert "no worker is running" in found["NO_WORKER"].message
    clock.advance(2)
    await outrider.watcher.look_once()
    alert = (await open_alerts(outrider))["RUN_STALLED"]
    assert (alert.subject, alert.severity) == (run_id, "P1")
    assert json.loads(alert.detail)["cause"] == "NO_WORKER"
    assert "no worker is running" in alert.message
    await Workshop(outrider.store).claim(ONE, now=clock.now())
    await outrider.watcher.look_once()
    assert "RUN_STALLED" not in await open_alerts(outrider), "a worker is at it"


async def test_a_run_that_waits_for_its_target_has_not_stalled(
    outrider: Outrider, clock: SteppedClock
) -> None:
    await begun(outrider, await created(outrider, 5))
    await outrider.target_keeper.pause(DEFAULT_SCOPE, "sms.all", "test")
    clock.advance(STALL + 1)
    await outrider.watcher.look_once()
    assert "RUN_STALLED" not in await open_alerts(outrider)


async def insert_event(raw: Raw, row_id: str, event_id: str, scope: Scope, at: str) -> None:
    """A domain event that is due, and that no router hears of."""
    await raw.run(
        "INSERT INTO domain_events (id, tenant_id, workspace_id, event_id, trigger_name,"
        " occurred_at, subject, variables, fingerprint, route_at, created_at, updated_at)"
        f" VALUES ('{row_id}', '{scope.tenant_id}', '{scope.workspace_id}',"
        f" '{event_id}', 'quote', '{at}', '{{}}', '{{}}', {raw.blob(bytes(32))}, '{at}', '{at}',"
        f" '{at}')"
    )


async def test_events_that_are_not_routed_or_published_are_reported(
    outrider: Outrider, clock: SteppedClock, database: str
) -> None:
    await outrider.bus_keeper.register()
    run_id = await begun(outrider, await created(outrider, 5))
    at = clock.now().isoformat().replace("+00:00", "Z")
    event_id = outrider.ids.new()
    async with raw_sql(database) as raw:
        await raw.run(
            "INSERT INTO event_bus_sinks (name, created_at) VALUES ('ears', '" + at + "')"
        )
        await raw.run(
            "INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)"
            f" VALUES ('ears', '{run_id}', 1, '{at}', '{at}')"
        )
        await insert_event(raw, event_id, "e", DEFAULT_SCOPE, at)
    clock.advance(STALL + 1)
    await outrider.watcher.look_once()
    found = await open_alerts(outrider)
    assert found["EVENT_BUS_STUCK"].subject == "ears"
    assert "EVENTS_STUCK" in found
    async with raw_sql(database) as raw:
        await raw.run("DELETE FROM event_bus_outbox")
        await raw.run("UPDATE domain_events SET status = 'routed', route_at = NULL, routes = '[]'")
    await outrider.watcher.look_once()
    assert {"EVENT_BUS_STUCK", "EVENTS_STUCK"}.isdisjoint(await open_alerts(outrider))


async def standing(outrider: Outrider, code: AlertCode) -> set[str]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 1_000, only_open=True)
    found = await outrider.store.read(page)
    return {alert.subject for alert in found if alert.code == code}


async def test_a_look_that_sees_its_fill_resolves_nothing(
    outrider: Outrider, clock: SteppedClock
) -> None:
    """R1: of more alerts than one look sees, those that it did not see were taken for gone."""
    for number in range(outrider.limits.watcher_subjects + 1):
        alert = Alert(DEFAULT_SCOPE, AlertCode.LATE_ACCEPTANCE, f"item-{number}", "so it is")
        await outrider.store.write(raise_alert(alert, outrider.ids, clock.now()))
    raised = await standing(outrider, AlertCode.LATE_ACCEPTANCE)
    await outrider.watcher.look_once()
    assert await standing(outrider, AlertCode.LATE_ACCEPTANCE) == raised
    clock.advance(outrider.limits.watcher_notice_seconds + 1)
    await outrider.watcher.look_once()
    assert await standing(outrider, AlertCode.LATE_ACCEPTANCE) == set()


async def test_runs_that_are_hardly_behind_hide_none_that_is(
    database: str, tmp_path: Path, clock: SteppedClock
) -> None:
    """R1: a look saw the first runs that were behind at all."""
    limits = replace(IMPATIENT, watcher_subjects=1)
    async with opened(database, tmp_path, NOOP, clock=clock, limits=limits) as outrider:
        older = await created(outrider, 2)
        await begun(outrider, older)
        await outrider.projector.project_once()
        lagging = await begun(outrider, await created(outrider, 2))
        clock.advance(20)
        await control(outrider, older, Action.PAUSE)
        await outrider.watcher.look_once()
        assert await standing(outrider, AlertCode.PROJECTOR_LAG_HIGH) == {lagging}


async def test_one_workspaces_many_events_hide_no_other_workspaces(
    database: str, tmp_path: Path, clock: SteppedClock
) -> None:
    """R1: a look saw the oldest events, and those may all be of one workspace."""
    limits = replace(IMPATIENT, watcher_subjects=2)
    async with opened(database, tmp_path, NOOP, clock=clock, limits=limits) as outrider:
        at = rfc3339(clock.now())
        other = Scope(DEFAULT_SCOPE.tenant_id, WorkspaceId(outrider.ids.new()))
        async with raw_sql(database) as raw:
            await raw.run(
                "INSERT INTO workspaces (id, tenant_id, project, environment, created_at)"
                f" VALUES ('{other.workspace_id}', '{other.tenant_id}', 'other', 'test', '{at}')"
            )
            for number, scope in enumerate([DEFAULT_SCOPE] * 3 + [other]):
                await insert_event(raw, outrider.ids.new(), f"e{number}", scope, at)
        clock.advance(STALL + 1)
        await outrider.watcher.look_once()
        script = watching.open_alerts([AlertCode.EVENTS_STUCK], 100)
        found = await outrider.store.read(script)
        assert {alert.scope for alert in found} == {DEFAULT_SCOPE, other}


async def test_a_spool_that_does_not_drain_is_reported_by_its_own_machine(
    outrider: Outrider, clock: SteppedClock
) -> None:
    spool = LocalSpool(outrider.settings.spool, outrider.ids)
    await spool.put(b"{}")
    elsewhere = Alert(DEFAULT_SCOPE, AlertCode.SPOOL_STUCK, "another:spool", "still so")
    await outrider.store.write(raise_alert(elsewhere, outrider.ids, clock.now()))
    await outrider.watcher.look_once()
    clock.advance(STALL + 1)
    await outrider.watcher.look_once()

    async def stuck() -> set[str]:
        page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
        found = await outrider.store.read(page)
        return {alert.subject for alert in found if alert.code == "SPOOL_STUCK"}

    assert len(await stuck()) == 2
    for name in await spool.names(10):
        await spool.remove(name)
    await outrider.watcher.look_once()
    assert await stuck() == {"another:spool"}, "that machine's own watcher knows better"


async def test_a_look_that_fails_or_hangs_costs_the_others_nothing(
    database: str, tmp_path: Path
) -> None:
    limits = replace(
        IMPATIENT, watcher_look_seconds=0.05, projector_lag_alert_seconds=0.0,
    )  # fmt: skip
    async with opened(database, tmp_path, NOOP, limits=limits) as outrider:

        async def breaks() -> list[object]:
            raise OSError("the disk is gone")

        async def hangs() -> list[object]:
            await asyncio.Event().wait()
            return []

        run_id: RunId = await begun(outrider, await created(outrider, 5))
        bad = [
            Look(AlertCode.SPOOL_STUCK, "broken", find)  # type: ignore[arg-type]
            for find in (breaks, hangs)
        ]
        outrider.watcher.looks = bad + outrider.watcher.looks
        await outrider.watcher.look_once()
        assert (await open_alerts(outrider))["PROJECTOR_LAG_HIGH"].subject == run_id


async def test_a_run_at_work_raises_nothing(database: str, tmp_path: Path) -> None:
    limits = replace(IMPATIENT, watcher_seconds=0.01)
    async with opened(database, tmp_path, NOOP, limits=limits) as outrider:
        run_id = await begun(outrider, await created(outrider, 200))
        await work_until_terminal(outrider, run_id)
        page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=False)
        assert await outrider.store.read(page) == []
