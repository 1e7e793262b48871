"""The witnesses themselves: tests that rest on their word need them to misbehave as told."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import aiosmtplib
import pytest

from tests.support.eventually import eventually
from tests.support.postfix import needs_postfix, running_postfix
from tests.support.smtp_witness import THROTTLES, SmtpWitness
from tests.support.witness_gateway import WitnessGateway
from tests.support.witness_process import overlapping

TOLERANCE_SECONDS = 0.05


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[WitnessGateway]:
    async with WitnessGateway(tmp_path, "gateway") as started:
        yield started


@pytest.fixture
async def mail(tmp_path: Path) -> AsyncIterator[SmtpWitness]:
    async with SmtpWitness(tmp_path) as started:
        yield started


async def send(
    gateway: WitnessGateway, reference: str = "r", to: str = "+1"
) -> aiohttp.ClientResponse:
    body = {"referenceId": reference, "to": to, "message": f"text of {reference}"}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
        session.post(f"{gateway.url}/sms/send", json=body) as answer,
    ):
        await answer.read()
        return answer


async def mail_to(mail: SmtpWitness, to: str, reference: str = "r") -> str:
    headers = ["From: a@example.test", "Subject: s", f"X-Outrider-Reference: {reference}"]
    message = "\r\n".join([*headers, "", "Hi", ""])
    _, reply = await aiosmtplib.send(
        message, sender="a@example.test", recipients=[to], hostname="127.0.0.1", port=mail.port,
        start_tls=False,
    )  # fmt: skip
    return reply


async def test_a_request_is_logged_with_when_it_began_and_ended(gateway: WitnessGateway) -> None:
    await gateway.script(latency_seconds=0.2)
    before = time.time()
    answer = await send(gateway, "one")
    after = time.time()
    assert await answer.json() == {"status": "accepted", "referenceId": "one"}
    [request] = gateway.requests()
    assert request.was_accepted
    assert (request.reference_id, request.to, request.text) == ("one", "+1", "text of one")
    assert request.ended_at is not None
    assert before <= request.began_at <= request.ended_at - 0.2
    assert request.ended_at <= after + TOLERANCE_SECONDS


async def test_one_recipient_can_be_slow_while_the_others_are_not(gateway: WitnessGateway) -> None:
    await gateway.script(latency_of={"+slow": 0.5})
    slow = asyncio.create_task(send(gateway, "slow", "+slow"))
    await gateway.until_requests(1)
    await send(gateway, "quick", "+quick")
    assert not slow.done()
    assert (await slow).status == 200


async def test_references_are_taken_again_unless_it_dedupes(gateway: WitnessGateway) -> None:
    await send(gateway, "one")
    await send(gateway, "one")
    assert gateway.accepted_twice() == ["one"]
    await gateway.script(dedupes=True)
    answer = await send(gateway, "one")
    assert (await answer.json())["reason"] == "duplicate_reference"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttle_lasts_as_long_as_the_provider_asked(
    gateway: WitnessGateway, status: int
) -> None:
    told_at = await gateway.script(throttle_status=status, retry_after_seconds=7, seconds=0.3)  # type: ignore[arg-type]
    answer = await send(gateway)
    assert (answer.status, answer.headers["Retry-After"]) == (status, "7")
    await eventually(lambda: gateway.changed_at() > told_at)
    assert (await send(gateway)).status == 200
    assert [request.outcome for request in gateway.requests()] == [f"http_{status}", "accepted"]


async def test_a_throttle_can_hit_a_share_of_the_requests(gateway: WitnessGateway) -> None:
    await gateway.script(throttle_status=503, throttle_share=0.5)
    statuses = [(await send(gateway, str(number))).status for number in range(40)]
    assert 5 < statuses.count(503) < 35


async def test_when_stopped_it_refuses_connections_and_restarts_on_its_port(
    gateway: WitnessGateway,
) -> None:
    told_at = await gateway.script(away=True, seconds=0.3)
    with pytest.raises(aiohttp.ClientConnectorError):
        await send(gateway)
    await eventually(lambda: gateway.changed_at() > told_at)
    assert (await send(gateway)).status == 200
    assert gateway.changed_at() < time.time()


@pytest.mark.parametrize("fault", ["reset_unread", "reset_read", "never_answer"])
async def test_a_connection_can_be_reset_or_left_unanswered(
    gateway: WitnessGateway, fault: str
) -> None:
    await gateway.script(fault=fault)  # type: ignore[arg-type]
    with pytest.raises((aiohttp.ClientError, TimeoutError)):
        await asyncio.wait_for(send(gateway), 0.5)
    await asyncio.sleep(TOLERANCE_SECONDS)
    [request] = gateway.requests()[:1]
    assert request.outcome == ("abandoned" if fault == "never_answer" else fault)
    assert (request.ended_at is None) == (fault == "never_answer")


async def test_an_answer_can_come_byte_by_byte(gateway: WitnessGateway) -> None:
    await gateway.script(fault="trickle", trickle_seconds=0.002)
    began = time.monotonic()
    assert (await send(gateway)).status == 200
    assert time.monotonic() - began > 0.2


@pytest.mark.parametrize("beyond", ["answer_503", "reset", "refuse"])
async def test_more_connections_than_it_takes_are_turned_away(
    gateway: WitnessGateway, beyond: str
) -> None:
    await gateway.script(latency_seconds=0.3, connections_most=2, connections_beyond=beyond)  # type: ignore[arg-type]
    first = [asyncio.create_task(send(gateway, f"first-{number}")) for number in range(2)]
    await gateway.until_requests(2)
    if beyond == "answer_503":
        assert (await send(gateway, "third")).status == 503
    else:
        with pytest.raises(aiohttp.ClientError):
            await send(gateway, "third")
    assert [(await each).status for each in first] == [200, 200]
    await asyncio.sleep(TOLERANCE_SECONDS)
    assert (await send(gateway, "fourth")).status == 200


async def test_messages_with_the_marker_fail_and_no_others(gateway: WitnessGateway) -> None:
    await gateway.script(failing_marker="text of bad")
    assert (await send(gateway, "bad")).status == 500
    assert (await send(gateway, "good")).status == 200


async def test_a_client_that_goes_leaves_a_request_without_an_end(gateway: WitnessGateway) -> None:
    await gateway.script(latency_seconds=5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(send(gateway), 0.2)
    await asyncio.sleep(TOLERANCE_SECONDS)
    [request] = gateway.requests()
    assert (request.outcome, request.ended_at) == ("abandoned", None)


async def test_overlapping_requests_are_found(gateway: WitnessGateway) -> None:
    await gateway.script(latency_seconds=0.1)
    await asyncio.gather(send(gateway, "one"), send(gateway, "two"))
    assert len(overlapping(gateway.requests())) == 1
    await send(gateway, "three")
    assert len(overlapping(gateway.requests())) == 1


async def test_a_mail_is_logged_with_its_reference_and_recipient(mail: SmtpWitness) -> None:
    assert (await mail_to(mail, "ada@example.test", "ref-1")).startswith("2.0.0 queued")
    [request] = mail.accepted()
    assert (request.reference_id, request.to, request.text) == ("ref-1", "ada@example.test", "s")


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA", "END"])
@pytest.mark.parametrize("reply", list(THROTTLES))
async def test_a_mail_server_can_refuse_for_now_at_every_step(
    mail: SmtpWitness, command: str, reply: str
) -> None:
    await mail.script(refuse_at=command, refuse_with=THROTTLES[reply])  # type: ignore[arg-type]
    with pytest.raises(
        (aiosmtplib.SMTPResponseException, aiosmtplib.SMTPRecipientsRefused)
    ) as told:
        await mail_to(mail, "ada@example.test")
    assert THROTTLES[reply].split(" ", 1)[1] in str(told.value)
    assert mail.requests()[0].outcome == f"refused_{THROTTLES[reply][:3]}"
    await mail.heal()
    assert await mail_to(mail, "ada@example.test")


async def test_a_mail_server_greets_connections_beyond_its_limit_with_421(
    mail: SmtpWitness,
) -> None:
    await mail.script(connections_most=1, end_of_data_seconds=0.3)
    first = asyncio.create_task(mail_to(mail, "ada@example.test"))
    await mail.until_requests(1)
    with pytest.raises(aiosmtplib.SMTPConnectError, match=r"421|too many|closed|Unexpected"):
        await mail_to(mail, "bob@example.test")
    await first
    await asyncio.sleep(TOLERANCE_SECONDS)
    assert await mail_to(mail, "bob@example.test")


async def test_a_mail_server_keeps_to_a_rate(mail: SmtpWitness) -> None:
    await mail.script(rate_per_second=2)
    await mail_to(mail, "a@example.test")
    await mail_to(mail, "b@example.test")
    with pytest.raises(aiosmtplib.SMTPDataError, match="Maximum sending rate"):
        await mail_to(mail, "c@example.test")


async def test_a_mail_whose_client_disconnects_is_not_completed(mail: SmtpWitness) -> None:
    await mail.script(end_of_data_seconds=5)
    _, writer = await asyncio.open_connection("127.0.0.1", mail.port)
    commands = ["EHLO a", "MAIL FROM:<a@example.test>", "RCPT TO:<b@example.test>", "DATA", "", "."]
    for command in commands:
        writer.write(f"{command}\r\n".encode())
        await asyncio.sleep(TOLERANCE_SECONDS)
    writer.close()
    await asyncio.sleep(TOLERANCE_SECONDS)
    [request] = mail.requests()
    assert (request.outcome, request.ended_at) == ("abandoned", None)


@needs_postfix
async def test_postfix_relays_what_it_takes_to_the_witness(mail: SmtpWitness) -> None:
    async with running_postfix(mail.port) as postfix:
        message = "From: a@example.test\r\nX-Outrider-Reference: r\r\n\r\nHi\r\n"
        port = int(postfix.url.rpartition(":")[2])
        await aiosmtplib.send(
            message, sender="a@example.test", recipients=["ada@example.test"],
            hostname="127.0.0.1", port=port, start_tls=False,
        )  # fmt: skip
        await mail.until_requests(1)
    assert [request.to for request in mail.requests()] == ["ada@example.test"]


@needs_postfix
async def test_postfix_turns_connections_beyond_its_limit_away(mail: SmtpWitness) -> None:
    limit = {"smtpd_client_connection_count_limit": 2}
    async with running_postfix(mail.port, limit) as postfix:
        port = int(postfix.url.rpartition(":")[2])
        # One after the other: Postfix counts what it has greeted.
        greetings, writers = [], []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            greetings.append((await reader.readline())[:3])
            writers.append(writer)
        for writer in writers:
            writer.close()
        assert greetings == [b"220", b"220", b"421"]
        assert postfix.refused_connections() == 1
