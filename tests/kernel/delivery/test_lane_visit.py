"""One slow call delays nobody else, and one address gets its messages in order.

Both are looked at on the wire: what counts is when the provider saw each call begin and end.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from outrider.testing.launches import target
from tests.support.deployment import Deployment, deployed, mail_address, phone
from tests.support.eventually import eventually
from tests.support.smtp_witness import SmtpWitness
from tests.support.witness_gateway import WitnessGateway
from tests.support.witness_process import WitnessProcess, overlapping

SMS, PATIENT, MAIL = "sms.lane", "sms.patient", "mail.lane"
SLOW_SECONDS = 5.0
DEADLINE_SECONDS = 4
OTHERS = 40
BEGINS_WITHIN_SECONDS = 1.0
PEOPLE, STEPS = 20, 6
CALL_SECONDS = 0.05
LAYOUTS = [pytest.param(0, id="serve"), pytest.param(2, id="serve-and-2-work")]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[WitnessGateway]:
    async with WitnessGateway(tmp_path, "gateway") as started:
        yield started


@pytest.fixture
async def mail(tmp_path: Path) -> AsyncIterator[SmtpWitness]:
    async with SmtpWitness(tmp_path) as started:
        yield started


@pytest.fixture(params=LAYOUTS)
async def deployment(
    request: pytest.FixtureRequest,
    gateway: WitnessGateway,
    mail: SmtpWitness,
    database: str,
    tmp_path: Path,
) -> AsyncIterator[Deployment]:
    targets = [
        target(SMS, "sms", gateway.url, policy="deadline", maxAcceptanceSeconds=DEADLINE_SECONDS),
        target(PATIENT, "sms", gateway.url),
        target(MAIL, "smtp", mail.url),
    ]
    async with deployed(tmp_path, database, targets, worker_processes=request.param) as made:
        yield made


async def test_one_slow_call_delays_none_of_forty_others(
    deployment: Deployment, gateway: WitnessGateway
) -> None:
    """S3: a free slot takes the next due item; nobody else is late, let alone exhausted. At first
    with nobody slow, which is the harness itself."""
    for name, slow_seconds in (("healthy", 0.0), ("slow", SLOW_SECONDS)):
        await nobody_else_is_late(deployment, gateway, name, slow_seconds)


async def nobody_else_is_late(
    deployment: Deployment, gateway: WitnessGateway, name: str, slow_seconds: float
) -> None:
    first = 1_000 * round(slow_seconds)
    slow = phone(first + 1)
    await gateway.script(latency_of={slow: slow_seconds})
    asked = len(gateway.requests())
    await deployment.submit(name, SMS, slow)
    await gateway.until_requests(asked + 1)
    submitted: dict[str, float] = {}
    for number in range(OTHERS):
        to = phone(first + 100 + number)
        submitted[to] = await deployment.submit(f"{name}-other-{number}", SMS, to)
        await asyncio.sleep(0.02)
    # Who has not begun when the time of the last is over is late, and told so below.
    with suppress(AssertionError):
        await eventually(
            lambda: submitted.keys() <= gateway.first_began().keys(), seconds=BEGINS_WITHIN_SECONDS
        )
    began = gateway.first_began()
    late = [
        round(began[to] - at, 2) if to in began else "not begun"
        for to, at in submitted.items()
        if to not in began or began[to] - at > BEGINS_WITHIN_SECONDS
    ]
    assert not late, f"{name}: {len(late)} of {OTHERS} waited for the slow one: {late}"
    for number in range(OTHERS):
        other = await deployment.until_intent(
            f"{name}-other-{number}", lambda intent: intent["status"] != "PENDING", DEADLINE_SECONDS
        )
        assert other["status"] == "ACCEPTED", other


async def test_an_item_that_expires_behind_a_throttled_target_is_exhausted_in_time(
    deployment: Deployment, gateway: WitnessGateway
) -> None:
    """S3: one 429 with Retry-After 20 closes the door; the item says `target_throttled`."""
    await gateway.script(throttle_status=429, retry_after_seconds=20)
    await deployment.submit("first", SMS, phone(1))
    await gateway.until_requests(1)
    await gateway.heal()
    names = [f"behind-{number}" for number in range(5)]
    for number, name in enumerate(names):
        await deployment.submit(name, SMS, phone(100 + number))
    for name in names:
        intent = await deployment.until_intent(
            name, lambda intent: intent["status"] != "PENDING", DEADLINE_SECONDS + 2.0
        )
        assert intent["status"] == "EXHAUSTED", intent
        item = await deployment.server.get(f"/outbox/{intent['outboxId']}")
        told = await deployment.server.get(f"/outbox/{intent['outboxId']}/explain")
        assert "target_throttled" in json.dumps([intent, item, told]), told


async def test_steps_due_together_arrive_in_order(
    deployment: Deployment, gateway: WitnessGateway, mail: SmtpWitness
) -> None:
    """C3: an address's messages are called one after the other, in the order of their steps; those
    of two channels side by side."""
    await gateway.script(latency_seconds=CALL_SECONDS)
    await mail.script(end_of_data_spread_seconds=2 * CALL_SECONDS)
    for channel in ("sms", "email"):
        await add_rule(deployment, channel)
    for number in range(PEOPLE):
        await emit(deployment, number)
    for witness, address in ((gateway, phone), (mail, mail_address)):
        await all_arrive_in_order(witness, [address(number) for number in range(PEOPLE)])


async def all_arrive_in_order(witness: WitnessProcess, addresses: list[str]) -> None:
    await eventually(
        lambda: len(witness.accepted()) >= PEOPLE * STEPS, seconds=30,
        what=f"not all {PEOPLE * STEPS} messages came to {witness.url}",
    )  # fmt: skip
    found = witness.by_recipient()
    expected = [text_of(step) for step in range(STEPS)]
    disordered = [
        [request.text for request in requests]
        for requests in found.values()
        if [request.text for request in requests] != expected
    ]
    assert not disordered, f"{len(disordered)} of {PEOPLE} out of order, such as {disordered[0]}"
    overlaps = [pair for requests in found.values() for pair in overlapping(requests)]
    assert not overlaps, f"{len(overlaps)} calls began before the one before them had ended"
    assert sorted(found) == sorted(addresses)


async def add_rule(deployment: Deployment, channel: str) -> None:
    """A rule whose steps are all due at once."""
    rule = {"trigger": "quote_sent", "channel": channel, "audience": "lead"}
    answer = await deployment.server.request("PUT", "/workflows/rules", rule)
    assert answer.status == 201, answer.body
    for step in range(STEPS):
        made = {
            "ruleId": answer.json["id"],
            "stepOrder": step,
            "submissionTarget": PATIENT if channel == "sms" else MAIL,
            "body": text_of(step),
            "recipientConfig": {"includeLeadContact": True},
            **({"subject": text_of(step)} if channel == "email" else {}),
        }
        await deployment.server.post("/workflows/steps", made)


async def emit(deployment: Deployment, number: int) -> None:
    lead = {"id": f"lead-{number}", "phone": phone(number), "email": mail_address(number)}
    event = {"eventId": f"event-{number}", "trigger": "quote_sent", "subject": {"lead": lead}}
    await deployment.server.post("/events", event)


def text_of(step: int) -> str:
    return f"step {step + 1}"
