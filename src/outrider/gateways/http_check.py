"""How HTTP targets are checked: a request that cannot be a message, and what its answer means.

A provider is asked with the target's own credentials. "Unknown credential" is a failure; "you may
not read this" does not say whether the credential may send, so it is a warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from yarl import URL

from outrider.domain.call_results import AttemptError
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.reachability import CONNECT_HINTS, NO_ANSWER, unreachable, words
from outrider.ports.target_check import CheckFailure, CheckFinding, CheckStep, CheckWarning

REFUSED = frozenset({401, 403})
NOT_IMPLEMENTED = 501
BUSY = frozenset({429, 503})

SERVER_FAILS = "Look at the provider's status page, then check again."
NOT_FOLLOWED = "Redirects are not followed: set gatewayUrl to the final address."
SPEAKS_TLS = (
    "Check the host and port in gatewayUrl, firewalls on the way, and that TLS is spoken there."
)
TRUST = (
    "The certificate must be for this host name, in date, and signed by an authority that this"
    " machine trusts (SSL_CERT_FILE names others)."
)

USABLE = "Set it to one that the provider accepts, for this account and this use."
LATER = "Check again later."

Code = str | int


@dataclass(frozen=True, slots=True)
class Question:
    """One request that a provider documents as harmless. Its headers hold credentials."""

    url: URL
    headers: Mapping[str, str] = field(repr=False)
    credential: str
    """The credential that a refusal is about."""
    options: tuple[str, ...] = ()
    """The options that are part of the URL, and so may be what is wrong with it."""
    method: str = "GET"
    content: bytes = b""
    can_only_send: frozenset[Code] = frozenset()
    """Error codes of a known credential that may only send."""
    may_not_read: frozenset[Code] = frozenset()
    """Error codes, or whole error texts, of a known credential with unknown permissions."""


def unanswered(url: URL, error: AttemptError) -> CheckFailure:
    """No response, or none that is HTTP."""
    host, port = url.host or "", url.port or 0
    if error.code == "connect_timeout" and url.scheme == "https":
        message = f"no TLS connection to {host}:{port} could be made ({NO_ANSWER})"
        return CheckFailure(CheckStep.CONNECT, message, SPEAKS_TLS)
    if error.code in CONNECT_HINTS:
        return unreachable(host, port, error.code, error.detail)
    why = words(error.detail or error.code)
    if error.code == "tls_failure":
        message = f"the TLS handshake with {host}:{port} failed ({why})"
        return CheckFailure(CheckStep.TLS, message, TRUST)
    message = f"{host}:{port} gave no HTTP response ({why})"
    return CheckFailure(CheckStep.REQUEST, message, "Check that gatewayUrl is an HTTP server.")


def reached(url: URL, answer: ReceivedAnswer) -> CheckWarning | None:
    """For a gateway without a harmless call: any answer proves that it is there."""
    status, where = answer.status, f"{url.host}:{url.port}"
    if status in REFUSED:
        message = f"{where} answers HTTP {status} to a request without credentials"
        hint = "This type sends no credentials: allow this machine, or use a proxy that adds them."
        return CheckWarning(CheckStep.CREDENTIAL, message, hint)
    if 300 <= status < 400:
        return CheckWarning(CheckStep.REQUEST, f"{where} redirects (HTTP {status})", NOT_FOLLOWED)
    if status >= 500 and status != NOT_IMPLEMENTED:
        return CheckWarning(CheckStep.REQUEST, f"{where} answers HTTP {status}", SERVER_FAILS)
    return None


def judged(
    question: Question,
    answer: ReceivedAnswer,
    code: Code | None,
    detail: str,
    reference: str,
    *,
    unknown: bool,
) -> CheckFinding | None:
    """What a provider's answer says about the target.

    `unknown` is whether its error code alone says that the credential is invalid.
    """
    status = answer.status
    if 200 <= status < 300:
        return None if _is_document(answer.body) else _another_server(question, status)
    if code in question.can_only_send:
        return None
    reply = words(f"HTTP {status} {detail}")
    name = f"the credential '{question.credential}' ({reference})"
    if {code, detail} & question.may_not_read:
        message = f"{name} has no read access, so it is not proven that it may send: {reply}"
        return CheckWarning(
            CheckStep.CREDENTIAL, message, "Give it read access so that it can be checked."
        )
    if status in REFUSED or unknown:
        return CheckFailure(CheckStep.CREDENTIAL, f"{name} was refused: {reply}", USABLE)
    if status in BUSY:
        message = f"the provider is busy: {reply}"
        return CheckWarning(CheckStep.REQUEST, message, LATER)
    return CheckFailure(CheckStep.REQUEST, *_trouble(question, status, reply))


def _trouble(question: Question, status: int, said: str) -> tuple[str, str]:
    """What is wrong with the provider or its address, and what to do."""
    if status >= 500:
        return f"the provider failed: {said}", SERVER_FAILS
    if 300 <= status < 400:
        return f"the provider redirects: {said}", NOT_FOLLOWED
    suspects = " and ".join(("gatewayUrl", *(f"the option '{each}'" for each in question.options)))
    return f"the provider refuses {question.url.path}: {said}", f"Check {suspects}."


def _is_document(body: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(body), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _another_server(question: Question, status: int) -> CheckFailure:
    message = f"{question.url.host} answers HTTP {status}, but not the way this provider does"
    return CheckFailure(CheckStep.REQUEST, message, "Check that gatewayUrl is the provider's API.")
