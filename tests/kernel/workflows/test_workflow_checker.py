"""Workflows are rehearsed before a registry silences them, and failed events are seen: C5, C7."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from outrider.cli.app import app
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.states import Channel
from outrider.domain.workflow_retry import WorkflowRetry
from outrider.kernel.transactions import alerts
from outrider.kernel.transactions.alerts import AlertRecord
from outrider.limits.api import ApiLimits
from outrider.testing.launches import registry, target
from tests.support.api_inside import Inside, serving
from tests.support.raw_sql import raw_sql
from tests.support.workflows import MAIL, SMS, WHATSAPP, Office, email, office, whatsapp


@pytest.fixture
async def desk(database: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with office(database, tmp_path) as made:
        yield made


def targets(desk: Office, *names: str, **terms: Any) -> bytes:
    sandbox = desk.sandbox
    known = {
        MAIL: ("smtp", sandbox.smtp_url),
        "mail.second": ("smtp", sandbox.smtp_url),
        WHATSAPP: ("whatsapp_cloud", sandbox.http_url),
        SMS: ("sms", sandbox.http_url),
    }
    given = terms or {"maxAttempts": 50}
    return registry(*(target(name, *known[name], **given) for name in names))


async def put(server: Inside, raw: bytes, query: str = "") -> tuple[int, Any]:
    headers = {**server.headers, "Content-Type": "application/json"}
    async with server.session.put(
        f"{server.url}/registry{query}", data=raw, headers=headers
    ) as answer:
        return answer.status, await answer.json()


async def standing(desk: Office) -> list[AlertRecord]:
    found = await desk.outrider.store.read(
        alerts.alerts_page(DEFAULT_SCOPE, alerts.LAST, 10, only_open=True)
    )
    return [each for each in found if each.code == "EVENTS_FAILED"]


async def test_a_registry_that_would_silence_workflows_is_refused_with_every_problem(
    desk: Office,
) -> None:
    """C5: a second e-mail target, a target that is gone, and a template that cannot compile."""
    await desk.routed("quote_sent")
    await desk.rule("lead_welcome", Channel.WHATSAPP, whatsapp(submission_target=WHATSAPP))
    await desk.rule("appointment", Channel.EMAIL, email(submission_target=MAIL))
    async with serving(desk.outrider, ApiLimits()) as server:
        changed = targets(desk, MAIL, "mail.second", SMS)
        status, problem = await put(server, changed)
        assert (status, problem["error"]["code"]) == (400, "INVALID_REQUEST")
        fields = {each["path"]: each["message"] for each in problem["error"]["fields"]}
        legacy = "workflows: quote_sent, email to lead, legacy sender proposal_email"
        gone = "workflows: lead_welcome, whatsapp to lead, step 1"
        assert fields.keys() == {legacy, gone}
        assert "more than one submission target for email" in fields[legacy]
        assert f"no submission target '{WHATSAPP}'" in fields[gone]
        assert WHATSAPP in desk.outrider.registry_keeper.contracts(), "nothing changed"
        status, answer = await put(server, changed, "?acceptProblems=true")
        assert status == 200
        assert {each["path"] for each in answer["warnings"]} == {legacy, gone}
        # What is broken already stops nobody from putting another registry in force.
        assert (await put(server, changed))[0] == 200
    async with raw_sql(desk.database) as raw:
        await raw.run("UPDATE workflow_steps SET body = 'Hi {{ lead.firstName'")
    found = await desk.outrider.workflow_checker.check(desk.outrider.registry_keeper.contracts())
    spoilt = [each for each in found.problems if each.path.endswith(", body")]
    assert [each.path for each in spoilt] == [
        "workflows: lead_welcome, whatsapp to lead, step 1, body",
        "workflows: appointment, email to lead, step 1, body",
    ]


async def test_a_failed_event_is_counted_alerted_and_logged_with_its_reason(desk: Office) -> None:
    """C5: until it has been routed after all."""
    keeper = desk.outrider.registry_keeper
    good = targets(desk, MAIL, SMS)
    keeper.replace(targets(desk, MAIL, "mail.second", SMS))
    with capture_logs() as logs:
        await desk.routed("quote_sent", event_id="q-1")
        await desk.routed("quote_sent", event_id="q-2")
    lines = [line for line in logs if line["event"] == "event_not_routed"]
    assert [line["event_id"] for line in lines] == ["q-1", "q-2"]
    assert "more than one submission target for email" in lines[0]["why"]
    [alert] = await standing(desk)
    assert (alert.subject, alert.times) == ("quote_sent", 2)
    assert alert.message.startswith(
        "2 events of quote_sent could not be processed; the latest is q-2: proposal_email: the"
        " registry has more than one submission target for email"
    )
    async with serving(desk.outrider, ApiLimits()) as server:
        url = f"{server.url}/trouble"
        async with server.session.get(url, headers=server.headers) as answer:
            assert (await answer.json())["failedEvents"] == 2
    keeper.replace(good)
    intake, router = desk.outrider.event_intake, desk.outrider.event_router
    await intake.reroute(DEFAULT_SCOPE, "q-1")
    await router.route_due()
    assert len(await standing(desk)) == 1, "one of them still waits"
    await intake.reroute(DEFAULT_SCOPE, "q-2")
    await router.route_due()
    assert await standing(desk) == []


async def test_a_contract_that_ends_before_the_retries_is_warned_of(desk: Office) -> None:
    """C7: a deadline of 300 seconds leaves a workflow's message 3 of its 6 calls."""
    await desk.rule("lead_welcome", Channel.EMAIL, email())
    await desk.rule("appointment", Channel.WHATSAPP, whatsapp())
    checker, keeper = desk.outrider.workflow_checker, desk.outrider.registry_keeper
    assert (await checker.check(keeper.contracts())).warnings == []
    keeper.replace(targets(desk, MAIL, WHATSAPP, policy="deadline", maxAcceptanceSeconds=300))
    warnings = (await checker.check(keeper.contracts())).warnings
    assert {each.path for each in warnings} == {
        f"workflows: target {MAIL}", f"workflows: target {WHATSAPP}",
    }  # fmt: skip
    assert "after 3 of 6 calls" in warnings[0].message
    assert "gives up after 31 minutes" in warnings[0].message
    shorter = ScreenPolicies(retry=WorkflowRetry(attempts=3))
    await desk.outrider.policy_keeper.put(DEFAULT_SCOPE, shorter, "test")
    assert (await checker.check(keeper.contracts())).warnings == []


async def test_outrider_check_rehearses_rules_and_legacy_senders(tmp_path: Path) -> None:
    """C5 and C7, as an operator meets them."""
    database = f"sqlite:///{tmp_path}/office.db"
    async with office(database, tmp_path) as desk:
        await desk.rule("lead_welcome", Channel.SMS, *[])
        await desk.routed("quote_sent")
        file = tmp_path / "changed.json"

        async def check(raw: bytes) -> tuple[int, Any]:
            file.write_bytes(raw)
            arguments = ["--database", database, "--registry", str(file), "check", "--json"]
            result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
            return result.exit_code, json.loads(result.stdout)

        code, told = await check(targets(desk, MAIL, SMS, policy="one_shot"))
        assert code == 0
        assert any("one_shot" not in hint and "1 of 6 calls" in hint for hint in told["hints"])
        assert any("the rule has no enabled step" in hint for hint in told["hints"])
        code, told = await check(targets(desk, MAIL, "mail.second", SMS))
        assert code == 1
        assert [each["path"] for each in told["error"]["fields"]] == [
            "workflows: quote_sent, email to lead, legacy sender proposal_email"
        ]
