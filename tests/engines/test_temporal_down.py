"""Temporal is down: starting processes say so, running ones continue, and the engine can be
changed."""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from typer.testing import CliRunner, Result

from outrider.cli.app import app
from outrider.domain.ids import DEFAULT_SCOPE, JobId
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from outrider.gateways.sandbox import Sandbox, references_delivered
from outrider.ports.engine import Stalled, Work, WorkKind
from outrider.testing.launches import observe, registry, target, until_terminal
from tests.support.broken_server import closed_port
from tests.support.controls import begun, control, created, until, until_nothing_is_held
from tests.support.run_logs import check_against_log
from tests.support.temporal_server import TemporalServer, running_temporal
from tests.support.whole_runs import IMPATIENT, opened, work_until, working

TELL_SECONDS = 0.5
BESIDE_SECONDS = 6.0
"""What a control may take beside telling the engine, on a machine with other work."""
PATIENT = replace(IMPATIENT, engine_tell_seconds=TELL_SECONDS, stalled_retell_seconds=0.5)

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a Temporal server that is not there, in the settings of every command."""
    address = f"127.0.0.1:{closed_port()}"
    (tmp_path / "registry.json").write_bytes(registry(target("noop", "noop", "noop:")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_ENGINE", "temporal")
    monkeypatch.setenv("OUTRIDER_TEMPORAL_ADDRESS", address)
    assert invoke("migrate").exit_code == 0
    return address


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("command", [["work"], ["serve", "--port", "0"]])
def test_a_worker_reports_on_start_that_the_server_does_not_answer(
    nobody: str, command: list[str]
) -> None:
    result = invoke(*command)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"no Temporal server answers at {nobody}: Connection refused" in result.stderr
    assert "next: start one with `temporal server start-dev`" in result.stderr
    assert "Traceback" not in result.stderr
    assert "ready" not in result.stderr


@pytest.mark.usefixtures("nobody")
def test_a_missing_namespace_is_reported(
    temporal_server: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_TEMPORAL_ADDRESS", temporal_server.address)
    monkeypatch.setenv("OUTRIDER_TEMPORAL_NAMESPACE", "elsewhere")
    result = invoke("work", "--json")
    assert result.exit_code == 1
    assert msgspec.json.decode(result.stdout)["error"]["message"] == (
        "Temporal has no namespace 'elsewhere'"
    )


def test_check_reports_the_engine_among_all_problems(nobody: str) -> None:
    (Path.cwd() / "registry.json").unlink()
    result = invoke("check", "--json")
    assert result.exit_code == 1
    problems = msgspec.json.decode(result.stdout)["error"]["fields"]
    assert [problem["path"] for problem in problems] == ["registry", "engine"]
    assert f"no Temporal server answers at {nobody}" in problems[1]["message"]


@pytest.mark.usefixtures("nobody")
def test_check_says_which_setting_is_mistyped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_TEMPORAL_ADDRESS", "http://temporal.internal:7233")
    result = invoke("check")
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "error: the settings are not valid",
        "  OUTRIDER_TEMPORAL_ADDRESS should be HOST:PORT, without a scheme",
    ]


@pytest.mark.usefixtures("nobody")
def test_an_engine_that_is_not_installed_is_reported_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in list(sys.modules):
        if name.startswith("outrider.engines.temporal"):
            monkeypatch.delitem(sys.modules, name)
        elif name.partition(".")[0] == "temporalio":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "temporalio", None)
    result = invoke("work")
    assert result.exit_code == 1
    assert "the engine 'temporal' is not installed" in result.stderr
    assert "next: pip install 'outrider[temporal]'" in result.stderr


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[TemporalServer]:
    with running_temporal() as server:
        yield server


@SQLITE
async def test_a_pause_returns_quickly_and_takes_effect_while_temporal_is_down(
    database: str, tmp_path: Path, mortal_server: TemporalServer
) -> None:
    await mortal_server.until_ready()
    async with (
        Sandbox() as sandbox,
        opened(
            database, tmp_path, target("sms.all", "sms", sandbox.http_url),
            limits=PATIENT, engine="temporal", temporal_address=mortal_server.address,
        ) as outrider,
    ):  # fmt: skip
        sandbox.change_faults({"latencyMs": 30})
        campaign_id = await created(outrider, 200)
        async with working(outrider):
            run_id = await begun(outrider, campaign_id)
            await until(lambda: sandbox.requests > 10)
            mortal_server.kill()
            asked_at = time.monotonic()
            answer = await control(outrider, campaign_id, Action.PAUSE)
            assert time.monotonic() - asked_at < TELL_SECONDS + BESIDE_SECONDS
            assert answer.state is PhaseState.PAUSED
            await until_nothing_is_held(outrider)
            paused_at = sandbox.requests
            _, accounting = await observe(outrider, run_id)
            assert accounting.waiting > 0
            mortal_server.start()
            await mortal_server.until_ready()
            assert sandbox.requests == paused_at
            await control(outrider, campaign_id, Action.RESUME)
            assert (await until_terminal(outrider, run_id)).sent == 200


@SQLITE
async def test_a_control_is_no_failure_where_the_engine_cannot_even_be_asked(
    database: str, tmp_path: Path
) -> None:
    lost: dict[str, Any] = {"temporal_tls": True, "temporal_tls_ca": tmp_path / "lost.pem"}
    noop = target("sms.all", "noop", "noop:")
    async with opened(database, tmp_path, noop, engine="temporal", **lost) as outrider:
        campaign_id = await created(outrider, 10)
        run_id = await begun(outrider, campaign_id)
        assert (await control(outrider, campaign_id, Action.PAUSE)).state is PhaseState.PAUSED
    async with opened(database, tmp_path, noop) as outrider, working(outrider):
        await control(outrider, campaign_id, Action.RESUME)
        assert (await until_terminal(outrider, run_id)).sent == 10


@SQLITE
async def test_the_engine_is_changed_in_mid_run_and_back_without_repair(
    database: str, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    log_path = tmp_path / "provider.ndjson"
    async with Sandbox(log_path=log_path) as sandbox:
        sandbox.change_faults({"latencyMs": 20})
        sms = target("sms.all", "sms", sandbox.http_url)
        temporal: dict[str, Any] = {
            "engine": "temporal",
            "temporal_address": temporal_server.address,
            "temporal_task_queue": f"down-{uuid4()}",
        }
        async with opened(database, tmp_path, sms) as outrider:
            campaign_id = await created(outrider, 200)
            run_id = await begun(outrider, campaign_id)
            await work_until(outrider, run_id, lambda accounting: accounting.sent >= 40)
        async with opened(database, tmp_path, sms, **temporal) as outrider:
            reached = await work_until(outrider, run_id, lambda seen: seen.sent >= 100)
            assert reached.waiting > 0
        async with opened(database, tmp_path, sms) as outrider, working(outrider):
            assert (await until_terminal(outrider, run_id)).sent == 200
            assert (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds
            await check_against_log(outrider, campaign_id)
    assert set(references_delivered(log_path).values()) == {1}


@SQLITE
async def test_a_run_on_a_task_queue_that_is_no_longer_polled_is_restarted_on_the_configured_one(
    database: str, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    noop = target("sms.all", "noop", "noop:")
    temporal: dict[str, Any] = {"engine": "temporal", "temporal_address": temporal_server.address}
    before, now = f"before-{uuid4()}", f"now-{uuid4()}"
    async with opened(database, tmp_path, noop, **temporal, temporal_task_queue=before) as outrider:
        run_id = await begun(outrider, await created(outrider, 10))
    async with (
        opened(database, tmp_path, noop, **temporal, temporal_task_queue=now) as outrider,
        working(outrider),
    ):
        assert (await until_terminal(outrider, run_id)).sent == 10


@SQLITE
async def test_a_run_on_a_task_queue_that_others_poll_is_left_to_them(
    database: str, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    noop = target("sms.all", "noop", "noop:")
    temporal: dict[str, Any] = {"engine": "temporal", "temporal_address": temporal_server.address}
    theirs, ours = f"theirs-{uuid4()}", f"ours-{uuid4()}"
    async with opened(database, tmp_path, noop, **temporal, temporal_task_queue=theirs) as there:
        # Its worker has come and gone: Temporal remembers for minutes that it polled.
        first = await begun(there, await created(there, 10))
        async with working(there):
            assert (await until_terminal(there, first)).sent == 10
        run_id = await begun(there, await created(there, 10))
        async with opened(database, tmp_path, noop, **temporal, temporal_task_queue=ours) as here:
            work = Work(WorkKind.RUN, DEFAULT_SCOPE.tenant_id, run_id)
            stalled = Stalled(work, JobId("any"), here.clock.now())
            assert not await here.engine.recover([stalled])
        async with working(there):
            assert (await until_terminal(there, run_id)).sent == 10
