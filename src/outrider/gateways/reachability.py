"""Whether a server can be connected to, and what to do if not.

Shared by the checks of all families: the same problem has the same text in every protocol.
"""

import asyncio
import socket
import ssl

from outrider.gateways.address_guard import AddressRefused, connect
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS
from outrider.ports.target_check import CheckFailure, CheckStep

NO_ANSWER = "no answer within the time limit"

CONNECT_HINTS = {
    "dns_failure": "Check the host name in gatewayUrl.",
    "address_refused": "Set allow_private_gateways = true if this server is your own.",
    "connect_timeout": "Check the host and port in gatewayUrl, and firewalls on the way.",
    "connect_failed": "Check the host and port in gatewayUrl, and that the server is running.",
}


def unreachable(host: str, port: int, code: str, why: str) -> CheckFailure:
    """`code` is one of CONNECT_HINTS."""
    why = NO_ANSWER if code == "connect_timeout" else words(why)
    message = f"nothing can be reached at {host}:{port} ({why})"
    return CheckFailure(CheckStep.CONNECT, message, CONNECT_HINTS[code])


def connect_code(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "connect_timeout"
    if isinstance(error, socket.gaierror):
        return "dns_failure"
    return "address_refused" if isinstance(error, AddressRefused) else "connect_failed"


async def reach(
    host: str, port: int, *, allow_private: bool, seconds: float
) -> CheckFailure | None:
    """Whether something listens there. For families without their own check."""
    try:
        async with asyncio.timeout(seconds):
            connection = await connect(host, port, allow_private=allow_private)
    except OSError as error:
        return unreachable(host, port, connect_code(error), str(error))
    except ValueError as error:
        # Names that never reach a resolver: a label that is empty or too long.
        return unreachable(host, port, "dns_failure", str(error))
    connection.close()
    return None


def tls_reason(error: BaseException) -> str | None:
    """The TLS error, if there is one; libraries wrap it."""
    for each in (error, error.__cause__):
        if isinstance(each, ssl.SSLCertVerificationError):
            return words(each.verify_message or str(each))
        if isinstance(each, ssl.SSLError):
            return words(each.reason or str(each))
    return None


def words(text: str) -> str:
    """A server's own words, on one line and without terminal control sequences."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:ERROR_DETAIL_MAX_CHARACTERS]
