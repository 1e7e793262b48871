"""`outrider receive-mail`: bounces over real SMTP and LMTP, and from a Maildir."""

import asyncio
import json
import smtplib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from outrider.domain.errors import InvalidInput
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.return_paths import ReturnPath
from outrider.domain.webhook_signatures import signing_keys
from outrider.domain.workspaces import WorkspaceName
from outrider.gateways.directory import Gateways
from outrider.gateways.http_client import HttpClient
from outrider.gateways.mail_listener import MailListener
from outrider.gateways.mail_receiver import MailOutcome, MailReceiver
from outrider.gateways.maildir_watcher import MaildirWatcher
from outrider.gateways.posted_inbox import PostedInbox
from outrider.gateways.sandbox_receipts import ProviderReport, returned_mail
from outrider.ports.receipts import Callback, Verified
from outrider.settings import TargetSettings
from outrider.testing.receipt_suite import NOW
from tests.support.kept_receipts import KeptReceipts
from tests.support.receipt_targets import OTHER_SECRET, SECRET, NamedSecrets, gateways_of

REFERENCE = "a7" * 32
PATH = ReturnPath("bounces", "mail.example")
ADDRESS = PATH.address(signing_keys(SECRET)[0], REFERENCE)
FORGED = PATH.address(b"somebody else's key of 32 bytes.", REFERENCE)
DEFAULT = "default/default/default"


def bounce(event: ReceiptEvent = ReceiptEvent.BOUNCED, sender: str = ADDRESS) -> bytes:
    return returned_mail(
        ProviderReport(f"r-{event}", event, REFERENCE, "m", "ada@example.test", NOW, sender)
    )


@pytest.fixture
async def inbox() -> KeptReceipts:
    return KeptReceipts()


@pytest.fixture
async def receiver(inbox: KeptReceipts) -> AsyncIterator[MailReceiver]:
    targets = {
        "mail": TargetSettings(
            options={"returnPath": "bounces@mail.example"},
            credentials={"receiptsSecret": "env:MINE"},
        ),
        "other": TargetSettings(
            options={"returnPath": "bounces@mail.example"},
            credentials={"receiptsSecret": "env:OTHER"},
        ),
        "plain": TargetSettings(),
    }
    gateways = Gateways(NamedSecrets(), targets=targets)
    yield MailReceiver(gateways.return_mailboxes(), inbox)
    await gateways.close()


async def handed(
    listener: MailListener, *addresses: str, mail: bytes, lmtp: bool = False
) -> dict[str, tuple[int, bytes]] | None:
    """The refusals, by recipient; smtplib is a client that nobody here wrote."""

    def hand_over() -> dict[str, tuple[int, bytes]]:
        kind: Callable[..., smtplib.SMTP] = smtplib.LMTP if lmtp else smtplib.SMTP
        with kind(listener.host, listener.port) as client:
            return client.sendmail("", list(addresses), mail)

    return await asyncio.to_thread(hand_over)


@pytest.mark.parametrize("lmtp", [False, True])
async def test_a_bounce_is_taken_with_the_reference_of_its_address(
    receiver: MailReceiver, inbox: KeptReceipts, lmtp: bool
) -> None:
    async with MailListener(receiver, lmtp=lmtp) as listener:
        assert await handed(listener, ADDRESS, mail=bounce(), lmtp=lmtp) == {}
    ((key, receipt),) = inbox.taken.items()
    assert key[:2] == (DEFAULT, "mail")
    assert (receipt.event, receipt.permanent) == (ReceiptEvent.BOUNCED, True)
    assert receipt.reference == REFERENCE


async def test_a_mail_to_the_addresses_of_two_messages_is_about_both(
    receiver: MailReceiver, inbox: KeptReceipts
) -> None:
    other = PATH.address(signing_keys(SECRET)[0], "b8" * 32)
    async with MailListener(receiver) as listener:
        for _ in range(2):
            assert await handed(listener, ADDRESS, other, mail=bounce()) == {}
    assert sorted(str(each.reference) for each in inbox.taken.values()) == [REFERENCE, "b8" * 32]


async def test_whose_bounce_it_is_shows_by_the_secret_that_made_the_address(
    receiver: MailReceiver, inbox: KeptReceipts
) -> None:
    theirs = PATH.address(signing_keys(OTHER_SECRET)[0], REFERENCE)
    async with MailListener(receiver) as listener:
        await handed(listener, theirs, mail=bounce(sender=theirs))
    assert [key[:2] for key in inbox.taken] == [(DEFAULT, "other")]


@pytest.mark.parametrize("address", [FORGED, "bounces+x@mail.example", "ada@mail.example"])
async def test_an_address_that_we_did_not_make_is_refused_before_the_mail(
    receiver: MailReceiver, inbox: KeptReceipts, address: str
) -> None:
    async with MailListener(receiver) as listener:
        with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
            await handed(listener, address, mail=bounce())
    ((code, _),) = refused.value.recipients.values()
    assert code == 550
    assert inbox.calls == 0


async def test_a_complaint_is_believed_for_the_token_it_returns(
    receiver: MailReceiver, inbox: KeptReceipts
) -> None:
    complaint = bounce(ReceiptEvent.COMPLAINED)
    async with MailListener(receiver) as listener:
        await handed(listener, "bounces@mail.example", mail=complaint)
        forged = bounce(ReceiptEvent.COMPLAINED, FORGED)
        with pytest.raises(smtplib.SMTPDataError) as refused:
            await handed(listener, "bounces@mail.example", mail=forged)
    assert refused.value.smtp_code == 550
    (receipt,) = inbox.taken.values()
    assert (receipt.event, receipt.reference) == (ReceiptEvent.COMPLAINED, REFERENCE)


async def test_while_the_inbox_is_away_the_mail_server_keeps_the_mail(
    receiver: MailReceiver, inbox: KeptReceipts
) -> None:
    inbox.is_down = True
    async with MailListener(receiver) as listener:
        with pytest.raises(smtplib.SMTPDataError) as refused:
            await handed(listener, ADDRESS, mail=bounce())
        assert refused.value.smtp_code == 451
        inbox.is_down = False
        await handed(listener, ADDRESS, mail=bounce())
        await handed(listener, ADDRESS, mail=bounce())
    assert len(inbox.taken) == 1


async def test_lmtp_answers_for_each_recipient(receiver: MailReceiver, inbox: KeptReceipts) -> None:
    """Spoken by hand: Python's own client expects one reply only."""
    said = (
        b"LHLO mx.example\r\n", b"MAIL FROM:<>\r\n", f"RCPT TO:<{ADDRESS}>\r\n".encode(),
        b"RCPT TO:<bounces@mail.example>\r\n", b"DATA\r\n",
    )  # fmt: skip
    async with MailListener(receiver, lmtp=True) as listener, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        for words in (b"", *said, bounce(sender=FORGED) + b".\r\n"):
            writer.write(words)
            while (reply := await reader.readline())[3:4] == b"-":
                pass
        second = await reader.readline()
        writer.close()
    assert (reply[:3], second[:3]) == (b"250", b"550")
    assert len(inbox.taken) == 1


async def test_one_connection_too_many_is_asked_to_come_again(receiver: MailReceiver) -> None:
    async with MailListener(receiver, sessions=1) as listener:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        assert (await reader.readline()).startswith(b"220")
        second, other = await asyncio.open_connection(listener.host, listener.port)
        assert (await second.readline()).startswith(b"421")
        writer.close()
        other.close()


async def test_an_automatic_answer_is_taken_and_says_nothing(
    receiver: MailReceiver, inbox: KeptReceipts
) -> None:
    raw = b"From: ada@example.test\r\nAuto-Submitted: auto-replied\r\n\r\nI am away"
    assert await receiver.take([ADDRESS], raw) is MailOutcome.TAKEN
    assert inbox.calls == 0


def maildir(folder: Path) -> Path:
    for name in ("new", "cur", "tmp"):
        (folder / name).mkdir(parents=True)
    return folder


async def test_a_maildir_is_read_and_marked(
    receiver: MailReceiver, inbox: KeptReceipts, tmp_path: Path
) -> None:
    folder = maildir(tmp_path / "bounces")
    delivered = f"X-Original-To: {ADDRESS}\r\n".encode() + bounce()
    (folder / "new" / "1.a.host").write_bytes(delivered)
    (folder / "new" / "2.b.host").write_bytes(bounce(sender=FORGED))
    watcher = MaildirWatcher(receiver, folder)
    inbox.is_down = True
    with pytest.raises(ConnectionError):
        await watcher.look()
    assert len(list((folder / "new").iterdir())) == 2
    inbox.is_down = False
    assert await watcher.look() == 2
    assert sorted(file.name for file in (folder / "cur").iterdir()) == [
        "1.a.host:2,S", "2.b.host:2,F",
    ]  # fmt: skip
    assert [receipt.reference for receipt in inbox.taken.values()] == [REFERENCE]


async def test_a_running_watcher_takes_what_is_delivered_meanwhile(
    receiver: MailReceiver, inbox: KeptReceipts, tmp_path: Path
) -> None:
    folder = maildir(tmp_path / "bounces")
    watcher = MaildirWatcher(receiver, folder)
    running = asyncio.create_task(watcher.run())
    (folder / "tmp" / "1.a").write_bytes(bounce())
    (folder / "tmp" / "1.a").rename(folder / "new" / "1.a")
    (receipt,) = await inbox.until(1, 30)
    assert receipt.reference == REFERENCE
    watcher.stop()
    await running


async def test_a_folder_that_is_not_a_maildir_is_refused(
    receiver: MailReceiver, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput):
        MaildirWatcher(receiver, tmp_path)


class Server:
    """The server's door for receipts, with the reader that it will have."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []
        self.paths: list[str] = []
        self.is_down = False

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.is_down:
            return web.Response(status=503)
        reader = gateways_of("smtp").receipt_reader("mine", "smtp")
        assert reader is not None
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Callback("POST", str(request.url), {}, headers, await request.read())
        found = reader.read(asked, datetime.now(UTC))
        assert isinstance(found, Verified), found
        self.receipts += found.receipts
        self.paths.append(request.path)
        return web.Response()


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, str]]:
    door = Server()
    runner = web.ServerRunner(web.Server(door.take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield door, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_receipts_are_posted_in_the_format_that_the_servers_reader_expects(
    server: tuple[Server, str], receiver: MailReceiver
) -> None:
    door, url = server
    client = HttpClient()
    posted = PostedInbox(url, receiver.mailboxes, client, lambda: datetime.now(UTC))
    forwarder = MailReceiver(receiver.mailboxes, posted)
    assert await forwarder.take([ADDRESS], bounce()) is MailOutcome.TAKEN
    (receipt,) = door.receipts
    assert replace(receipt, occurred_at=None).reference == REFERENCE
    assert receipt.permanent
    assert door.paths == ["/receipts/mail"]
    door.is_down = True
    with pytest.raises(Exception, match="503"):
        await forwarder.take([ADDRESS], bounce())
    await client.close()


async def test_a_workspace_is_one_segment_of_the_servers_path(
    server: tuple[Server, str], receiver: MailReceiver
) -> None:
    door, url = server
    workspace = WorkspaceName.parse("acme/shop/live")
    [mailbox] = [each for each in receiver.mailboxes if each.submission_target == "mail"]
    own = replace(mailbox, workspace=workspace)
    client = HttpClient()
    posted = PostedInbox(url, [own], client, lambda: datetime.now(UTC))
    assert await MailReceiver([own], posted).take([ADDRESS], bounce()) is MailOutcome.TAKEN
    await client.close()
    assert door.paths == ["/receipts/acme:shop:live/mail"]


async def test_the_command_listens_and_says_where(
    server: tuple[Server, str], tmp_path: Path
) -> None:
    door, url = server
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "outrider.toml").write_text(
        '[targets."mail".options]\nreturnPath = "bounces@mail.example"\n'
        f'[targets."mail".credentials]\nreceiptsSecret = "file:{tmp_path}/secret"\n'
    )
    command = [sys.executable, "-m", "outrider", "--server", url, "receive-mail", "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        *command, "--lmtp", "--json", stdout=asyncio.subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        said = json.loads(await process.stdout.readline())
    assert said["returnPaths"] == ["bounces@mail.example"]
    host, _, port = said["receiving"].removeprefix("lmtp://").rpartition(":")

    def hand_over() -> None:
        with smtplib.LMTP(host, int(port)) as client:
            assert client.sendmail("", [ADDRESS], bounce()) == {}

    await asyncio.to_thread(hand_over)
    assert [receipt.reference for receipt in door.receipts] == [REFERENCE]
    process.terminate()
    assert await process.wait() == 0


async def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    for arguments in (["receive-mail"], ["--server", "http://127.0.0.1:1", "receive-mail"]):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "outrider", *arguments,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path,
        )  # fmt: skip
        output, _ = await process.communicate()
        assert process.returncode != 0
        assert b"no server" in output or b"no submission target has a return path" in output
