"""Members are drafted and opened window by window; a bad draft ends only its own item."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Sandbox
from outrider.testing.launches import launch, message, observe, target
from tests.support.whole_runs import items_of, opened, work_until_terminal

SMS = message(Channel.SMS, "sms.all")
EMAIL = message(Channel.EMAIL, "smtp.all", message_id="letter")


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def outrider(database: str, tmp_path: Path, sandbox: Sandbox) -> AsyncIterator[Outrider]:
    targets = (
        target("sms.all", "sms", sandbox.http_url),
        target("smtp.all", "smtp", sandbox.smtp_url),
    )
    async with opened(database, tmp_path, *targets) as made:
        yield made


async def test_an_undefined_variable_fails_its_item_and_names_itself(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    audience = [
        recipient("known", phone="+447700900001", attributes='{"firstName": "Ada"}'),
        recipient("unknown", phone="+447700900002"),
    ]
    run_id = await launch(outrider, [SMS], audience)
    await work_until_terminal(outrider, run_id)
    items = await items_of(outrider, run_id)
    assert items["known"].status == "sent"
    failed = items["unknown"]
    assert (failed.status, failed.reason, failed.attempts) == ("failed", "render_failed", 0)
    assert failed.error is not None
    assert "firstName" in failed.error
    assert (await observe(outrider, run_id))[0].status == "partial"
    assert sandbox.requests == 1


@pytest.mark.parametrize("smuggled", ["\r\nBcc: eve@example.test", "\n", "\0", "\u2028"])
async def test_a_line_break_in_a_subject_fails_its_item_before_any_call(
    outrider: Outrider, sandbox: Sandbox, smuggled: str
) -> None:
    letter = replace(EMAIL, subject="For {{ firstName }}")
    audience = [
        recipient(
            "smuggler",
            email="ada@example.test",
            attributes=json.dumps({"firstName": f"Ada{smuggled}"}),
        )
    ]
    run_id = await launch(outrider, [letter], audience)
    await work_until_terminal(outrider, run_id)
    failed = (await items_of(outrider, run_id))["smuggler"]
    assert failed.status == "failed"
    assert failed.reason in ("invalid_header", "render_failed")
    assert sandbox.requests == 0
