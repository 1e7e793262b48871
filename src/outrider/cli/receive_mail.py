"""`outrider receive-mail`: bounces, complaints and replies, from a mail server or a Maildir."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from outrider.bootstrap import make_gateways
from outrider.cli import texts
from outrider.cli.console import Json, err, fail, out, print_json
from outrider.cli.session import settings_of
from outrider.domain.errors import InvalidInput, OutriderError
from outrider.gateways.http_client import HttpClient
from outrider.gateways.mail_receiver import MailReceiver, ReturnMailbox
from outrider.gateways.maildir_watcher import MaildirWatcher
from outrider.gateways.posted_inbox import PostedInbox


def receive_mail(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8024,
    lmtp: Annotated[bool, typer.Option("--lmtp", help="Speak LMTP instead of SMTP.")] = False,
    maildir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Watch this Maildir instead of listening.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Receive returned mail, and report what it says to the server.

    For targets of the type smtp with the option returnPath and the credential receiptsSecret.
    Reports are posted to the server's /receipts (--server, else OUTRIDER_PUBLIC_URL), signed with
    the target's own secret. A mail server gets 250 only after the server has confirmed that the
    report is durable; otherwise it is asked to retry.
    """
    try:
        settings = settings_of(context)
        server_url = (context.obj or {}).get("server") or settings.public_url
        if server_url is None:
            raise InvalidInput(texts.ReceiveMail.NO_SERVER, hint=texts.ReceiveMail.NO_SERVER_HINT)
        gateways = make_gateways(settings)
        mailboxes = gateways.return_mailboxes()
        if not mailboxes:
            raise InvalidInput(
                texts.ReceiveMail.NO_RETURN_PATH, hint=texts.ReceiveMail.NO_RETURN_PATH_HINT
            )

        async def serve() -> None:
            client = HttpClient()
            inbox = PostedInbox(server_url, mailboxes, client, lambda: datetime.now(UTC))
            receiver = MailReceiver(mailboxes, inbox)
            stop = asyncio.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            try:
                async with _receiving(receiver, maildir, host, port, lmtp) as place:
                    _announce(place, mailboxes, as_json=as_json)
                    await stop.wait()
            finally:
                await client.close()
                await gateways.close()

        uvloop.run(serve())
    except OutriderError as error:
        fail(error, as_json=as_json)


@asynccontextmanager
async def _receiving(
    receiver: MailReceiver, maildir: Path | None, host: str, port: int, lmtp: bool
) -> AsyncIterator[str]:
    """Where mail is received, for as long as the block runs."""
    if maildir is not None:
        watcher = MaildirWatcher(receiver, maildir)
        async with asyncio.TaskGroup() as group:
            group.create_task(watcher.run(), name="maildir_watcher")
            try:
                yield str(maildir)
            finally:
                watcher.stop()
        return
    from outrider.gateways.mail_listener import MailListener

    listener = MailListener(receiver, host=host, port=port, lmtp=lmtp)
    try:
        await listener.start()
    except OSError as error:
        raise InvalidInput(
            texts.ReceiveMail.CANNOT_LISTEN.format(error=error),
            hint=texts.ReceiveMail.CANNOT_LISTEN_HINT,
        ) from error
    try:
        yield f"{'lmtp' if lmtp else 'smtp'}://{listener.host}:{listener.port}"
    finally:
        await listener.stop()


def _announce(place: str, mailboxes: list[ReturnMailbox], *, as_json: bool) -> None:
    addresses = sorted({str(mailbox.return_path) for mailbox in mailboxes})
    if as_json:
        print_json({"receiving": place, "returnPaths": addresses})
        return
    named = ", ".join(addresses)
    out.print(texts.ReceiveMail.RECEIVING.format(place=place, addresses=named))
    err.print(texts.ReceiveMail.CTRL_C, style="dim")
