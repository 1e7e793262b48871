"""How a mail server is checked: every step of a delivery up to the sender, and no message.

Connect, TLS, EHLO, AUTH, MAIL FROM, then RSET and QUIT. The failing step is named, with the
server's reply; credentials it repeats are removed.
"""

import asyncio
import base64
import re
from contextlib import suppress

from aiosmtplib import (
    SMTPConnectResponseError,
    SMTPException,
    SMTPResponseException,
)

from outrider.gateways.address_guard import connect
from outrider.gateways.helo_name import own_name
from outrider.gateways.mail_server import Login
from outrider.gateways.reachability import (
    NO_ANSWER,
    connect_code,
    tls_reason,
    unreachable,
    words,
)
from outrider.gateways.smtp_connection import SmtpConnection
from outrider.ports.target_check import CheckFailure, CheckStep

TEMPORARY = range(400, 500)
TRY_LATER = "The server says that this is temporary: check again later."
USE_TLS = "Use a server that offers STARTTLS, or smtps:// and its port, in gatewayUrl."
WHICH_TLS = (
    "Check the port in gatewayUrl: where TLS begins at once, usually on port 465, it is smtps://,"
    " elsewhere smtp://."
)
SILENT = {CheckStep.GREETING: WHICH_TLS, CheckStep.TLS: WHICH_TLS}
REFUSED = {CheckStep.TLS: "STARTTLS was offered and then refused: ask the server's operator."}
HINTS = {
    CheckStep.CONNECT: "Check the host and port in gatewayUrl.",
    CheckStep.TLS: (
        "The certificate must be for this host name, in date, and signed by an authority that this"
        " machine trusts; the option caFile names another one."
    ),
    CheckStep.GREETING: "Ask the server's operator whether this machine may connect to it.",
    CheckStep.CREDENTIAL: "Check the option 'username' and the credential 'password'.",
    CheckStep.SENDER: "Set the option 'from' to a sender that this server lets you use.",
}
AT = {
    CheckStep.CONNECT: "connecting",
    CheckStep.TLS: "TLS",
    CheckStep.GREETING: "EHLO",
    CheckStep.CREDENTIAL: "AUTH",
    CheckStep.SENDER: "MAIL FROM",
}


class MailCheck(SmtpConnection):
    """A connection like those that deliver, which stops after the sender."""

    async def check(self, sender: str, seconds: float) -> CheckFailure | None:
        self._step, passed = CheckStep.CONNECT, False
        try:
            async with asyncio.timeout(seconds):
                failure = await self._try(sender)
                passed = failure is None
                if passed:
                    await self._take_leave()
                return failure
        except TimeoutError:
            # If only QUIT was slow, nothing is wrong.
            return None if passed else self._failed(NO_ANSWER, SILENT.get(self._step))
        finally:
            self._client.close()

    async def _try(self, sender: str) -> CheckFailure | None:
        server = self._server
        try:
            connection = await connect(server.host, server.port, allow_private=server.allow_private)
            self._client.local_hostname = server.helo or await own_name(connection)
        except TimeoutError:
            raise
        except OSError as error:
            return unreachable(server.host, server.port, connect_code(error), str(error))
        except ValueError as error:
            return unreachable(server.host, server.port, "dns_failure", str(error))
        try:
            self._step = CheckStep.TLS if server.tls_from_start else CheckStep.GREETING
            # STARTTLS is a separate step here.
            await self._client.connect(sock=connection, start_tls=False)
            failure = await self._encrypt() or await self._log_on()
            if failure is None:
                self._step = CheckStep.SENDER
                await self._client.mail(sender)
            return failure
        except SMTPConnectResponseError as error:
            # Under smtps:// too, it was the greeting that came.
            self._step = CheckStep.GREETING
            return self._failed(f"{error.code} {error.message}")
        except SMTPResponseException as error:
            reply = f"{error.code} {error.message}"
            temporary = error.code in TEMPORARY
            return self._failed(reply, TRY_LATER if temporary else REFUSED.get(self._step))
        except TimeoutError:
            raise
        except (SMTPException, OSError) as error:
            reason = tls_reason(error)
            if reason is None:
                return self._failed(str(error))
            self._step = CheckStep.TLS
            return self._failed(reason, None if "certificate" in reason else WHICH_TLS)

    async def _encrypt(self) -> CheckFailure | None:
        server, client = self._server, self._client
        self._step = CheckStep.GREETING
        await self._say_hello()
        offered = client.supports_extension("starttls")
        if server.tls is not None and not server.tls_from_start and offered:
            self._step = CheckStep.TLS
            await client.starttls()
            self._step = CheckStep.GREETING
            await self._say_hello()
        self._step = CheckStep.TLS
        if server.tls_required and not self._encrypted:
            return self._failed("the server does not offer STARTTLS", USE_TLS)
        if server.login and not (self._encrypted or self._stays_on_this_host):
            return self._failed("a password is not sent over a connection without TLS", USE_TLS)
        return None

    async def _log_on(self) -> CheckFailure | None:
        login, self._step = self._server.login, CheckStep.CREDENTIAL
        if login is None:
            return None
        if not self._client.supports_extension("auth"):
            return self._failed("the server offers no AUTH")
        if not self._client.supported_auth_methods:
            return self._failed("the server offers no supported AUTH method")
        await self._client.login(login.username, login.password)
        return None

    async def _take_leave(self) -> None:
        with suppress(SMTPException, OSError):
            await self._client.rset()
            await self._client.quit()

    def _failed(self, said: str, hint: str | None = None) -> CheckFailure:
        step, server = self._step, self._server
        if server.login is not None:
            said = without_password(said, server.login)
        message = f"{server.host}:{server.port} at {AT[step]}: {words(said)}"
        return CheckFailure(step, message, hint or HINTS[step])


def without_password(text: str, login: Login) -> str:
    """Some servers repeat what they received: verbatim, or as encoded."""
    username, password = login.username.encode(), login.password.encode()
    whole = b"\0" + username + b"\0" + password
    sent = [base64.b64encode(each).decode().rstrip("=") for each in (password, whole)]
    # Longest first: one may be the end of another. An empty password is not a secret.
    for secret in sorted(filter(None, (*sent, login.password)), key=len, reverse=True):
        text = re.sub(re.escape(secret), "[redacted]", text, flags=re.IGNORECASE)
    return text
