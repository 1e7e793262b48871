"""The client's parts that need no server: generated code, tolerance, retries, signatures."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest
from scripts.client_code import PACKAGE, generated, openapi

from outrider.domain.phases import state_after
from outrider.domain.webhook_signatures import SignatureState, checked, signed_headers, signing_keys
from outrider_client import InvalidWebhook, Retries, webhooks
from outrider_client.models import CampaignState, CampaignStatus, EventEnvelope, PhaseState
from outrider_client.retries import is_temporary
from outrider_client.watching import STATE_AFTER, EventLines, StreamRules

SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
NOW = 1_790_000_000


async def test_the_generated_modules_are_what_the_api_generates() -> None:
    for name, text in generated(await openapi()).items():
        assert (PACKAGE / name).read_text() == text, f"{name} is not up to date: run `make docs`"


def test_the_client_needs_nothing_of_outrider_itself() -> None:
    for module in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert all(name.partition(".")[0] != "outrider" for name in names), module


def test_its_wheel_is_typed_and_complete(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PACKAGE.parents[1], check=True, capture_output=True, timeout=60)
    [wheel] = tmp_path.glob("outrider_client-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert {f"outrider_client/{each.name}" for each in PACKAGE.glob("*.py")} <= packed
    assert "outrider_client/py.typed" in packed


def test_what_a_newer_server_adds_is_tolerated() -> None:
    phases = '{"launch": {"state": "hibernating", "progressPercentage": 1, "sequence": 1}}'
    assert CampaignState("hibernating") == "hibernating"
    state = msgspec.json.decode('"hibernating"', type=PhaseState)
    assert state == "hibernating"
    assert msgspec.json.encode(state) == b'"hibernating"'
    page = msgspec.json.decode(
        '{"campaignId": "c", "name": "n", "controlPhase": null, "lastSequence": 1, "recipients": 0,'
        ' "phases": {}, "phaseOrder": [], "added": ' + phases + "}",
        type=CampaignStatus,
    )
    assert page.campaign_id == "c"


def test_delays_grow_and_end() -> None:
    retries = Retries(attempts=4, first_delay_seconds=1, longest_delay_seconds=3)
    delays = [retries.delay(attempt, 0) for attempt in (1, 2, 3)]
    assert all(
        most / 2 <= (delay or 0) <= most
        for delay, most in zip(delays, (1, 2, 3), strict=True)
    )  # fmt: skip
    assert retries.delay(4, 0) is None
    assert (retries.delay(1, 0, "30") or 0) == 30
    assert retries.delay(1, 100, "30") is None


def test_only_temporary_errors_are_repeated() -> None:
    assert is_temporary(503, None)
    assert is_temporary(409, "1")
    assert not is_temporary(409, None)
    assert not is_temporary(500, None)


def test_events_up_to_the_snapshot_and_progress_of_ended_phases_are_ignored() -> None:
    rules = StreamRules(sequence=5, states={"launch": PhaseState.IN_PROGRESS})

    def accepts(type: str, sequence: int) -> bool:
        line = msgspec.json.encode(
            {"type": type, "campaignId": "c", "phase": "launch", "sequence": sequence,
             "timestamp": "2026-12-01T09:00:00Z", "payload": {}}
        )  # fmt: skip
        return rules.accepts(msgspec.json.decode(line, type=EventEnvelope))

    assert not accepts("phase_completed", 5)
    assert accepts("campaign_progress", 6)
    assert accepts("phase_completed", 7)
    assert not accepts("campaign_progress", 8)
    assert not accepts("phase_started", 8)
    assert all(state_after(type) == str(state) for type, state in STATE_AFTER.items())


def test_comments_and_unknown_fields_of_a_stream_are_ignored() -> None:
    lines = EventLines()
    for line in (b": ping\r\n", b"\r\n", b"id: 1\r\n", b"retry: 10\r\n"):
        assert lines.feed(line) is None


def test_callbacks_of_outrider_are_verified_and_signed_receipts_are_accepted() -> None:
    headers = signed_headers(signing_keys(SECRET), "m-1", NOW, b"{}")
    assert webhooks.verify(SECRET, headers, b"{}", now=NOW) == "m-1"
    upper = {name.title(): value for name, value in headers.items()}
    assert webhooks.verify(f"{'other-secret' * 3} {SECRET}", upper, b"{}", now=NOW) == "m-1"
    signed = webhooks.sign(SECRET, "r-1", b"[]", now=NOW)
    assert checked(signing_keys(SECRET), signed, b"[]", NOW) is SignatureState.GENUINE


@pytest.mark.parametrize(
    ("body", "now", "change", "reason"),
    [
        (b"{ }", NOW, {}, "wrong"),
        (b"{}", NOW + 301, {}, "301 seconds ago"),
        (b"{}", NOW, {"webhook-id": "m-2"}, "wrong"),
        (b"{}", NOW, {"webhook-timestamp": "soon"}, "not a number"),
        (b"{}", NOW, {"webhook-signature": "v1,ü"}, "wrong"),
    ],
)
def test_a_forged_or_old_callback_is_refused(
    body: bytes, now: int, change: dict[str, str], reason: str
) -> None:
    headers = signed_headers(signing_keys(SECRET), "m-1", NOW, b"{}")
    with pytest.raises(InvalidWebhook, match=reason):
        webhooks.verify(SECRET, {**headers, **change}, body, now=now)


def test_a_callback_without_a_signature_is_refused() -> None:
    with pytest.raises(InvalidWebhook, match="webhook-id is missing"):
        webhooks.verify(SECRET, {}, b"{}")
