"""Whoever is to blame for a refusal, it is not the people who were to be written to.

Servers on real sockets refuse us, our sender, our name or our credential, for a while: the target
is held with an alert, nobody's attempt is used, and when it is mended everybody is sent to once.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import SETUP_WRONG, Accepted, AttemptError, Held, Progress
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.retry import DIRECT, MAIL, usual_schedule
from outrider.domain.states import Channel
from outrider.gateways.mail_server import Mail, Waits
from outrider.gateways.smtp import mail_server
from outrider.gateways.smtp_connection import SmtpConnection
from outrider.gateways.target_checker import check_targets
from outrider.kernel.transactions import alerts
from outrider.kernel.transactions.alerts import AlertRecord
from outrider.kernel.transactions.blockers import targets_now
from outrider.ports.target_check import CheckStep
from outrider.settings import TargetSettings
from outrider.testing.launches import (
    WATCH_SECONDS,
    launch,
    message,
    observe,
    people,
    target,
    until_terminal,
)
from tests.gateways.test_gateway_families import client as client
from tests.support.broken_server import (
    MailServer,
    Reader,
    Writer,
    closed_port,
    http,
    read_request,
    reservation,
    serving,
)
from tests.support.mail_security import USERNAME, Mailroom, mail_serving
from tests.support.postfix import needs_postfix, running_postfix
from tests.support.postgrey import needs_postgrey, running_postgrey
from tests.support.smtp_witness import SmtpWitness
from tests.support.whole_runs import (
    QUICK,
    items_of,
    opened,
    work_until,
    work_until_terminal,
    working,
)

NAME = "mail.main"
PEOPLE = 12
GREYLISTED = 200
SOON = {"breaker_seconds": 0.3, "retry_first_seconds": 0.1, "concurrency": 4}
WAIT_SECONDS = 60.0


@dataclass(slots=True)
class StrictServer(MailServer):
    """A scripted mail server that refuses those it has a reply for, and counts whom it took."""

    refused: dict[str, str] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        if not await self._reply(writer, self.greeting):
            return
        to = ""
        while line := (await reader.readline()).decode():
            self.heard.append(line.strip())
            verb = line.split()[0].lower()
            reply = getattr(self, verb)
            if verb == "rcpt":
                to = line.split("<")[1].split(">")[0]
                reply = self.refused.get(to, self.rcpt)
            if not await self._reply(writer, reply):
                return
            if verb == "data" and reply.startswith("354"):
                await reader.readuntil(b"\r\n.\r\n")
                if self.body.startswith("250"):
                    self.taken.append(to)
                if not await self._reply(writer, self.body):
                    return


@asynccontextmanager
async def mailing(
    database: str, folder: Path, url: str, **settings: object
) -> AsyncIterator[Outrider]:
    made = TargetSettings.model_validate({**SOON, **settings})
    entry = target(NAME, "smtp", url, policy="max_attempts", maxAttempts=2)
    async with opened(database, folder, entry, targets={NAME: made}) as outrider:
        yield outrider


async def open_alerts(outrider: Outrider) -> list[AlertRecord]:
    page = alerts.alerts_page(DEFAULT_SCOPE, alerts.LAST, 10, only_open=True)
    found = await outrider.store.read(page)
    return [each for each in found if each.code == "TARGET_HELD"]


async def until_held(outrider: Outrider, *, times: int = 2) -> AlertRecord:
    """Held, and found to be so again by a probe."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            held = await open_alerts(outrider)
            if held and held[0].times >= times:
                return held[0]
            await asyncio.sleep(WATCH_SECONDS)


async def nobody_is_blamed(outrider: Outrider, run_id: RunId) -> None:
    _, accounting = await observe(outrider, run_id)
    assert accounting.holds, accounting
    assert (accounting.failed, accounting.in_doubt, accounting.sent) == (0, 0, 0)
    items = await items_of(outrider, run_id)
    assert {item.attempts for item in items.values()} <= {0, 1}, "only what is out just now"


async def held_then_sent(
    outrider: Outrider, mend: Callable[[], None], count: int = PEOPLE
) -> tuple[AlertRecord, RunId]:
    """A campaign that is held, is mended while it is, and then reaches everybody."""
    run_id = await launch(outrider, [message(Channel.EMAIL, NAME)], people(count))
    async with working(outrider, retry=QUICK):
        alert = await until_held(outrider)
        await nobody_is_blamed(outrider, run_id)
        mend()
        accounting = await until_terminal(outrider, run_id, seconds=WAIT_SECONDS)
    assert accounting.sent == count
    items = await items_of(outrider, run_id)
    assert Counter(item.attempts for item in items.values()) == {1: count}
    assert await open_alerts(outrider) == []
    return alert, run_id


# A3: a mail server that refuses us


@pytest.mark.parametrize(
    ("step", "reply", "reason"),
    [
        ("greeting", "554 5.7.1 you are on our list", "connection_rejected"),
        ("ehlo", "550 5.7.1 who are you", "helo_refused"),
        ("mail", "553 5.7.1 not your address", "sender_refused"),
        ("rcpt", "504 5.5.2 <x>: Helo command rejected: need fully-qualified", "helo_refused"),
        ("rcpt", "554 5.7.1 Client host blocked using zen.example.test", "blocked"),
        ("body", "554 Message rejected: address is not verified", "blocked"),
    ],
)
async def test_a_mail_server_that_refuses_us_holds_the_target_and_uses_up_no_attempts(
    database: str, tmp_path: Path, step: str, reply: str, reason: str
) -> None:
    """A3: 100 of 100 people were invalid."""
    server = StrictServer()
    fine = getattr(server, step)
    setattr(server, step, reply)
    if step == "ehlo":
        server.helo = reply
    async with (
        serving(server) as port,
        mailing(database, tmp_path, f"smtp://127.0.0.1:{port}") as outrider,
    ):
        alert, _ = await held_then_sent(outrider, lambda: setattr(server, step, fine))
    assert f"{reason}: {reply}" in alert.message
    assert sorted(server.taken) == sorted(f"lead{number}@example.test" for number in range(PEOPLE))


async def test_one_whom_a_mail_server_refuses_is_to_blame_where_the_others_are_taken(
    database: str, tmp_path: Path
) -> None:
    """A3: the words name us, but they are said of one recipient only."""
    lonely, unknown = "lead3@example.test", "lead5@example.test"
    server = StrictServer(
        refused={lonely: "554 5.7.1 not for you", unknown: "550 5.1.1 no such user"}
    )
    async with (
        serving(server) as port,
        mailing(database, tmp_path, f"smtp://127.0.0.1:{port}") as outrider,
    ):
        run_id = await launch(outrider, [message(Channel.EMAIL, NAME)], people(PEOPLE))
        accounting = await work_until_terminal(outrider, run_id)
        items = await items_of(outrider, run_id)
    assert (accounting.sent, accounting.failed) == (PEOPLE - 2, 2)
    assert {(item.address, item.reason) for item in items.values() if item.status == "failed"} == {
        (lonely, "message_refused"), (unknown, "invalid_recipient"),
    }  # fmt: skip
    assert len(server.taken) == len(set(server.taken)) == PEOPLE - 2


async def test_a_mail_server_is_greeted_with_a_full_name_or_an_address() -> None:
    """A3: it was the bare host name."""
    for given, expected in ((None, r"EHLO (\[127\.0\.0\.1\]|[\w-]+(\.[\w-]+)+)"),
                            ("mail.example.test", r"EHLO mail\.example\.test")):  # fmt: skip
        server = StrictServer()
        async with serving(server) as port:
            line = SmtpConnection(mail_server(f"smtp://127.0.0.1:{port}", helo=given))
            letter = Mail("a@example.test", "b@example.test", b"Hi\r\n", "ref")
            assert isinstance(await line.deliver(letter, lambda: True), Accepted)
            await line.close()
        assert re.fullmatch(expected, server.heard[0]), server.heard[0]


@needs_postfix
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("restriction", "reason"),
    [("smtpd_helo_restrictions", "helo_refused"), ("smtpd_sender_restrictions", "sender_refused")],
)
async def test_postfix_that_refuses_our_name_or_sender_makes_no_recipient_invalid(
    database: str, tmp_path: Path, restriction: str, reason: str
) -> None:
    """A3, with the replies of a real server, which keeps them until the recipient is named."""
    async with (
        SmtpWitness(tmp_path) as mail,
        running_postfix(mail.port, {restriction: "reject"}) as postfix,
        mailing(database, tmp_path, postfix.url) as outrider,
    ):
        run_id = await launch(outrider, [message(Channel.EMAIL, NAME)], people(PEOPLE))
        async with working(outrider, retry=QUICK):
            alert = await until_held(outrider)
            await nobody_is_blamed(outrider, run_id)
    assert reason in alert.message


@needs_postfix
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_postfix_that_requires_a_full_name_accepts_ours(
    database: str, tmp_path: Path
) -> None:
    """A3: with the shipped settings."""
    strict = {
        "smtpd_helo_required": "yes",
        "smtpd_helo_restrictions": "reject_invalid_helo_hostname, reject_non_fqdn_helo_hostname",
    }
    async with (
        SmtpWitness(tmp_path) as mail,
        running_postfix(mail.port, strict) as postfix,
        mailing(database, tmp_path, postfix.url) as outrider,
    ):
        run_id = await launch(outrider, [message(Channel.EMAIL, NAME)], people(PEOPLE))
        assert (await work_until_terminal(outrider, run_id)).sent == PEOPLE


# A4: mail's own schedule


def test_mail_is_retried_after_minutes_and_hours_unless_a_deadline_is_shorter() -> None:
    """A4: every five seconds, it is over before a greylist lets anybody in."""
    assert usual_schedule("smtp", None) is MAIL
    assert usual_schedule("smtp", 3_600.0) is MAIL
    assert usual_schedule("smtp", 30.0) is DIRECT
    assert usual_schedule("sms", None) is DIRECT
    waits = [MAIL.delay_seconds(attempts) for attempts in (1, 2, 3, 8, 60)]
    assert waits == [60.0, 120.0, 240.0, 7_200.0, 7_200.0]


@needs_postfix
@needs_postgrey
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_greylist_delays_every_message_and_loses_none(
    database: str, tmp_path: Path
) -> None:
    """A4: 192 of 200 were exhausted. A real postgrey behind a real Postfix; its five minutes are
    one second here, and so is the first wait of the schedule."""
    async with (
        SmtpWitness(tmp_path) as mail,
        running_postgrey(delay_seconds=1) as policy,
        running_postfix(
            # Without its pause after each tenth refusal, which is for those who guess addresses.
            mail.port,
            {"smtpd_recipient_restrictions": policy, "smtpd_error_sleep_time": "0s"},
        ) as postfix,
        mailing(
            database, tmp_path, postfix.url, retry_first_seconds=1.5, concurrency=16
        ) as outrider,
    ):
        run_id = await launch(outrider, [message(Channel.EMAIL, NAME)], people(GREYLISTED))
        accounting = await work_until_terminal(outrider, run_id)
        items = await items_of(outrider, run_id)
        assert "Greylisted" in postfix.log
    assert accounting.sent == GREYLISTED
    assert Counter(item.attempts for item in items.values()) == {1: GREYLISTED}


# A5: credentials


@dataclass(slots=True)
class KeyedProvider:
    """Takes messages under one key only, as Resend does."""

    key: str
    refused: int = 0
    taken: list[str] = field(default_factory=list)

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        while True:
            request = (await read_request(reader)).decode()
            if f"Bearer {self.key}\r\n" in request:
                self.taken.append(request.split('"to":["')[1].split('"')[0])
                writer.write(http(200, b'{"id":"%d"}' % len(self.taken)))
            else:
                self.refused += 1
                writer.write(http(401, b'{"name":"invalid_api_key","message":"unknown key"}'))
            await writer.drain()


@asynccontextmanager
async def keyed(
    database: str, folder: Path, provider: KeyedProvider, file: Path
) -> AsyncIterator[Outrider]:
    settings = TargetSettings.model_validate({**SOON, "credentials": {"apiKey": f"file:{file}"}})
    async with serving(provider) as port:
        entry = target(NAME, "resend", f"http://127.0.0.1:{port}", maxAttempts=2)
        async with opened(database, folder, entry, targets={NAME: settings}) as outrider:
            yield outrider


async def test_a_refused_credential_holds_the_target_until_it_is_fixed(
    database: str, tmp_path: Path
) -> None:
    """A5: 200 of 200 `unauthorized` in 45 s, and no alert."""
    file, provider = tmp_path / "key", KeyedProvider("right")
    file.write_text("wrong")
    async with keyed(database, tmp_path, provider, file) as outrider:
        alert, _ = await held_then_sent(outrider, lambda: void(file.write_text("right")))
    assert "unauthorized: unknown key" in alert.message
    assert sorted(provider.taken) == sorted(set(provider.taken))
    assert len(provider.taken) == PEOPLE


async def test_a_credential_that_was_rotated_is_read_again_at_once(
    database: str, tmp_path: Path
) -> None:
    """A5: the call is tried once more, and nobody waits."""
    file, provider = tmp_path / "key", KeyedProvider("old")
    file.write_text("old")
    async with keyed(database, tmp_path, provider, file) as outrider:
        first = await launch(outrider, [message(Channel.EMAIL, NAME)], people(3, prefix="first"))
        assert (await work_until_terminal(outrider, first)).sent == 3
        file.write_text("new")
        provider.key = "new"
        second = await launch(outrider, [message(Channel.EMAIL, NAME)], people(PEOPLE))
        assert (await work_until_terminal(outrider, second)).sent == PEOPLE
        page = alerts.alerts_page(DEFAULT_SCOPE, alerts.LAST, 10, only_open=False)
        assert await outrider.store.read(page) == []
    assert 1 <= provider.refused <= PEOPLE


async def test_a_mail_password_that_was_rotated_is_read_again_at_once(
    tmp_path: Path, database: str
) -> None:
    """A5: AUTH is a credential like any other."""
    file, mailroom = tmp_path / "password", Mailroom(password="first")
    file.write_text("first")
    settings = {"options": {"username": USERNAME}, "credentials": {"password": f"file:{file}"}}
    async with (
        mail_serving(mailroom, auth_needs_tls=False) as port,
        mailing(database, tmp_path, f"smtp://127.0.0.1:{port}", **settings) as outrider,
    ):
        gateway = outrider.gateways.gateway(NAME, "smtp", f"smtp://127.0.0.1:{port}")
        mailroom.password = "second"
        held = await gateway.call(reservation("ada@example.test"))
        assert held == Held("unauthorized", "535 5.7.8")
        file.write_text("second")
        assert isinstance(await gateway.call(reservation("ada@example.test")), Accepted)
    assert len(mailroom.messages) == 1


def void(_result: object) -> None:
    """A lambda that returns something is no procedure."""


# A12: timeouts per step


async def test_each_step_of_mail_has_its_own_time() -> None:
    """A12: 15 s for every step put delivered mail in doubt."""
    assert (Waits().end, Waits().rcpt, Waits().data, Waits().block) == (600.0, 300.0, 120.0, 180.0)
    late = asyncio.Event()

    async def slow(reader: Reader, writer: Writer) -> None:
        writer.write(b"220 ready\r\n")
        while line := await reader.readline():
            verb = line.split()[0].lower()
            if verb == b"data":
                writer.write(b"354 go on\r\n")
                await reader.readuntil(b"\r\n.\r\n")
                await late.wait()
            writer.write(b"250 fine\r\n")

    letter = Mail("a@example.test", "b@example.test", b"Hi\r\n", "ref")
    async with serving(slow) as port:
        server = mail_server(f"smtp://127.0.0.1:{port}")
        line = SmtpConnection(replace(server, waits=Waits(rcpt=0.3, mail=0.3, data=0.3, end=30.0)))
        asyncio.get_running_loop().call_later(0.6, late.set)
        assert isinstance(await line.deliver(letter, lambda: True), Accepted)
        await line.close()
        late.clear()
        line = SmtpConnection(replace(server, waits=Waits(end=0.2)))
        result = await line.deliver(letter, lambda: True)
        await line.close()
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, "timeout")


# F3: what the set-up gets wrong


async def test_a_sender_with_a_name_works_and_a_bad_one_holds_the_run_back(
    database: str, tmp_path: Path
) -> None:
    """F3: the job died, and 300 of 300 people were `failed: job_dead`."""
    server = StrictServer()
    async with serving(server) as port:
        url = f"smtp://127.0.0.1:{port}"
        async with mailing(
            database, tmp_path, url, options={"from": "News, news@example"}
        ) as outrider:
            run_id = await launch(outrider, [message(Channel.EMAIL, NAME)], people(PEOPLE))
            async with working(outrider, retry=QUICK):
                alert = await until_held(outrider)
                await nobody_is_blamed(outrider, run_id)
            (door,) = (await outrider.store.read(targets_now(10))).doors.values()
        assert "target_setup: 'News, news@example' cannot be the sender" in alert.message
        assert door.reason == SETUP_WRONG
        async with mailing(
            database, tmp_path, url, options={"from": "Neues <news@example.test>"}
        ) as outrider:
            accounting = await work_until_terminal(outrider, run_id)
            assert await open_alerts(outrider) == []
    assert accounting.sent == PEOPLE
    assert "MAIL FROM:<news@example.test>" in server.heard


async def test_a_worker_that_starts_finds_what_is_set_up_wrong_and_what_is_right_again(
    database: str, tmp_path: Path
) -> None:
    """F3: before anybody is to be written to."""
    url = f"smtp://127.0.0.1:{closed_port()}"
    for wrong in (
        {"options": {"from": "nobody"}},
        {"options": {"colour": "red"}},
        {"options": {"caFile": str(tmp_path / "nowhere.pem")}},
        {"options": {"helo": "bare"}},
        {"options": {"username": "me"}, "credentials": {"password": f"file:{tmp_path}/none"}},
    ):
        async with mailing(database, tmp_path, url, **wrong) as outrider:
            async with outrider.worker():
                (alert,) = await open_alerts(outrider)
            assert "target_setup: " in alert.message
            (contract,) = outrider.registry_keeper.contracts().values()
            findings = await check_targets(outrider.gateways, [contract], allow_private=True)
            assert findings[NAME][0].step is CheckStep.SETUP
        async with mailing(database, tmp_path, url) as outrider, outrider.worker():
            assert await open_alerts(outrider) == []


# X1: what proves nothing


@pytest.mark.parametrize("status", [302, 404, 408, 409, 500])
async def test_a_provider_that_took_a_message_and_answers_nonsense_is_called_once(
    database: str, tmp_path: Path, status: int
) -> None:
    """X1: it was called four times where four attempts were allowed."""
    requests: list[bytes] = []

    async def takes(reader: Reader, writer: Writer) -> None:
        while True:
            requests.append(await read_request(reader))
            writer.write(http(status, b"<html>sorry</html>"))
            await writer.drain()

    settings = TargetSettings.model_validate(
        {
            **SOON,
            "options": {"accountSid": "AC1", "from": "+447700900100"},
            "credentials": {"authToken": "env:HOME"},
        }
    )
    async with serving(takes) as port:
        entry = target(NAME, "twilio_sms", f"http://127.0.0.1:{port}", maxAttempts=4)
        async with opened(database, tmp_path, entry, targets={NAME: settings}) as outrider:
            run_id = await launch(outrider, [message(Channel.SMS, NAME)], people(3))
            await work_until(outrider, run_id, lambda accounting: accounting.in_doubt == 3)
            items = await items_of(outrider, run_id)
    assert len(requests) == 3
    assert {(item.reason, item.error) for item in items.values()} == {
        (f"http_{status}", f"HTTP {status}: <html>sorry</html>")
    }
