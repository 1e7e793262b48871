"""Refused signals: each is on record, wherever it was refused, and however many there are."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from outrider.domain.errors import Forbidden
from outrider.domain.signals import Signal
from outrider.testing.launches import target
from tests.support.api_server import campaign, running_server
from tests.support.controls import begun, created
from tests.support.run_logs import READER, events_of, signal, types_of
from tests.support.whole_runs import IMPATIENT, START, SteppedClock, opened

NOOP = target("sms.all", "noop", "noop:")


async def test_a_signal_about_a_step_that_cannot_be_is_on_record(
    database: str, tmp_path: Path
) -> None:
    """R11: with `a|b` as its step a reader's signal left no trace."""
    async with opened(database, tmp_path, NOOP) as outrider:
        run_id = await begun(outrider, await created(outrider, 5))
        for odd in ("a|b", "", "no-such-step", "|" * 100):
            with pytest.raises(Forbidden):
                await signal(outrider, run_id, Signal.RETRY_STEP, by=READER, step_id=odd)
        # Nor does a signal that could never be sent like this.
        with pytest.raises(Forbidden):
            await signal(outrider, run_id, Signal.RETRY_STEP, by=READER)
        with pytest.raises(Forbidden):
            await signal(outrider, run_id, Signal.PAUSE, by=READER, step_id="a|b")
        told = await events_of(outrider, run_id)
        refused = [event for event in told if event.type == "SignalRejected"]
        assert [event.payload.get("stepId") for event in refused] == [
            "a|b", "", "no-such-step", "|" * 100, None, "a|b",
        ]  # fmt: skip
        assert {event.payload["by"] for event in refused} == {"key:rosa"}


async def test_every_refusal_is_recorded_at_a_bounded_rate(database: str, tmp_path: Path) -> None:
    """R11: after 10,000 signals no refusal was recorded any more, for good."""
    clock = SteppedClock()
    limits = replace(IMPATIENT, refusals_recorded=3, refusals_seconds=60.0)
    async with opened(database, tmp_path, NOOP, limits=limits, clock=clock) as outrider:
        run_id = await begun(outrider, await created(outrider, 5))
        for _ in range(8):
            with pytest.raises(Forbidden):
                await signal(outrider, run_id, Signal.CANCEL, by=READER)
        assert (await types_of(outrider, run_id)).count("SignalRejected") == 3
        assert await outrider.refusal_recorder.record_counted() == 0, "it may not be over"
        assert (await signal(outrider, run_id, Signal.PAUSE)).changed, "who may is not held up"
        await clock.step(61)
        with pytest.raises(Forbidden):
            await signal(outrider, run_id, Signal.CANCEL, by=READER)
        assert (await events_of(outrider, run_id))[-1].payload["refusedBesides"] == 5
        for _ in range(4):
            with pytest.raises(Forbidden):
                await signal(outrider, run_id, Signal.CANCEL, by=READER)
        await clock.step(61)
        assert await outrider.refusal_recorder.record_counted() == 1
        assert await outrider.refusal_recorder.record_counted() == 0
        last = (await events_of(outrider, run_id))[-1]
        assert (last.type, last.payload["refusedBesides"]) == ("SignalRejected", 2)
        assert last.occurred_at == START + timedelta(seconds=122)
        told = [e for e in await events_of(outrider, run_id) if e.type == "SignalRejected"]
        assert sum("by" in event.payload for event in told) == 6
        besides = [event.payload.get("refusedBesides", 0) for event in told]
        assert besides == [0, 0, 0, 5, 0, 0, 2], "8 and 5 refusals, and none of them left out"


async def test_a_control_refused_by_the_api_is_in_the_log_of_its_run(
    database: str, tmp_path: Path
) -> None:
    """R11: a reader's pause, resume or stop of a phase was answered 403 and recorded nowhere."""
    async with running_server(tmp_path, database=database, workers=0) as server:
        created_now = await server.request("POST", "/campaigns", campaign(3))
        campaign_id = created_now.json["campaignId"]
        reader = (await server.request("POST", "/keys", {"name": "rosa", "scopes": ["read"]})).json
        as_reader = {"Authorization": f"Bearer {reader['key']}"}
        door = f"/campaigns/{campaign_id}/phases/launch"
        before = await server.request("POST", f"{door}/pause", headers=as_reader)
        assert before.status == 403, "there is no run yet whose log it could be in"
        started = await server.request("POST", f"{door}/start")
        run_id = started.json["runId"]
        for path in (f"{door}/pause", f"{door}/resume", f"{door}/stop", f"{door}/start"):
            answer = await server.request("POST", path, headers=as_reader)
            assert (answer.status, answer.json["error"]["code"]) == (403, "INSUFFICIENT_SCOPE")
        stopped = await server.request("POST", f"/campaigns/{campaign_id}/stop", headers=as_reader)
        assert stopped.status == 403
        nowhere = f"/campaigns/{run_id}/phases/launch/pause"
        assert (await server.request("POST", nowhere, headers=as_reader)).status == 403
        page = await server.get(f"/runs/{run_id}/events")
        refused = [line for line in page["items"] if line["eventType"] == "SignalRejected"]
        assert [line["payload"]["signal"] for line in refused] == [
            "PAUSE", "RESUME", "CANCEL", "CANCEL",
        ]  # fmt: skip
        assert all(line["payload"]["code"] == "INSUFFICIENT_SCOPE" for line in refused)
        assert "rosa" in refused[0]["payload"]["by"]
