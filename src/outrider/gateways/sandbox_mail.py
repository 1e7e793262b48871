"""The simulator's SMTP side: a whole message is decided and recorded before its reply is sent.

A mail server has no references, so nothing is ever deduplicated here.
"""

import asyncio
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING, assert_never

from aiosmtpd.smtp import SMTP, Envelope, Session

from outrider.gateways.sandbox_emitter import DeliveredMessage
from outrider.gateways.sandbox_files import files_of_mail
from outrider.gateways.sandbox_protocol import Kept, Outcome
from outrider.gateways.smtp_sessions import TrackedSession
from outrider.limits.gateways import SANDBOX_MAIL_MAX_BYTES

if TYPE_CHECKING:
    from outrider.gateways.sandbox import Sandbox


class MailSession(TrackedSession):
    """One SMTP connection, which the simulator can close when it stops."""

    def __init__(self, sandbox: "Sandbox", loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            sandbox.mail_sessions,
            _Mailroom(sandbox),
            hostname="sandbox",
            data_size_limit=SANDBOX_MAIL_MAX_BYTES,
            enable_SMTPUTF8=True,
            loop=loop,
        )


class _Mailroom:
    """What the simulator answers to RCPT and to a whole message."""

    def __init__(self, sandbox: "Sandbox") -> None:
        self._sandbox = sandbox

    async def handle_RCPT(
        self,
        _server: SMTP,
        _session: Session,
        envelope: Envelope,
        address: str,
        _options: list[str],
    ) -> str:
        if address.startswith("reject"):
            self._sandbox.record("smtp", "", address, Outcome.REJECTED)
            return "550 5.1.1 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:
        sandbox = self._sandbox
        raw = envelope.original_content or b""
        headers = BytesHeaderParser().parsebytes(raw)
        reference = str(headers.get("X-Outrider-Reference", ""))
        # Mail servers have no references: whatever the faults say, this never dedupes.
        before = sandbox.deliveries[reference]
        outcome = sandbox.decide(
            "smtp", reference, ", ".join(envelope.rcpt_tos), files_of_mail(headers, raw),
            dedupes=False,
        )  # fmt: skip
        number = sandbox.requests
        if sandbox.deliveries[reference] > before:
            at, recipients = datetime.now(UTC), ", ".join(envelope.rcpt_tos)
            sandbox.keep(Kept("smtp", reference, f"sandbox-{number}", recipients, at))
        if sandbox.emitter is not None and sandbox.deliveries[reference] > before:
            to, sender = ", ".join(envelope.rcpt_tos), envelope.mail_from or ""
            message = DeliveredMessage("smtp", reference, f"sandbox-{number}", to, sender)
            sandbox.emitter.delivered(message)
        await sandbox.wait()
        match outcome:
            case Outcome.ACCEPTED:
                return f"250 2.0.0 queued as sandbox-{number}"
            case Outcome.REJECTED:
                return "554 5.6.0 the simulator refuses this message as configured"
            case Outcome.THROTTLED:
                return "450 4.7.0 too many messages"
            case Outcome.DUPLICATE_REFERENCE | Outcome.OTHER_REQUEST:
                raise AssertionError("a mail server never dedupes")
            case Outcome.DROPPED:
                if server.transport is not None:
                    server.transport.close()
                # Losing the connection cancels this session, so no reply can follow.
                never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                return await never
            case other:
                assert_never(other)
