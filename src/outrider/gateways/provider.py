"""What every HTTP provider has in common: content becomes a request, the answer a call result.

A family adds three things: its provider's request, how to read the answers, and a table of the
documented error codes: about the item, about us, or about the provider's own state. Ambiguity
stays: only the provider's own refusal, or a code of the table, proves that nothing was taken.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from urllib.parse import urlencode

import msgspec
from yarl import URL

from outrider.domain.call_results import (
    UNAUTHORIZED,
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Held,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.evidence import LookedUp, silence
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import memory_of
from outrider.domain.submission import GatewayType
from outrider.gateways.content import INCOMPLETE, Content, content, refuse_enclosures
from outrider.gateways.credentials import Credential
from outrider.gateways.family import Target
from outrider.gateways.http import ReceivedAnswer, is_about_certificates, words_of
from outrider.gateways.http_check import LATER, USABLE, Question, judged, unanswered
from outrider.gateways.look_ups import NoAnswer, as_target_declares, fingerprint, recipe_of
from outrider.limits.gateways import (
    ERROR_DETAIL_MAX_CHARACTERS,
    HTTP_CONCURRENCY,
    HTTP_WINDOW_ITEMS,
    LOOK_UP_WINDOW_SECONDS,
    PROVIDER_CONCURRENCY,
)
from outrider.ports.gateway import LookUpQuestion, Reservation
from outrider.ports.target_check import CheckFailure, CheckFinding, CheckStep, CheckWarning

REFERENCE_HEADER = "X-Outrider-Reference"
"""For providers without a field for it: they ignore it, but traces and the simulator use it."""

REDACTED = "[redacted]"

THROTTLED = frozenset({429, 503})
"""Deferred before processing: nothing was taken."""

REASONS_BY_STATUS: Mapping[int, str] = {
    400: "invalid_request",
    413: "invalid_message",
    422: "invalid_request",
}
"""For an error with no code, or one the family does not know."""

REFUSES_US = frozenset({401, 403})
"""Whether the provider or a proxy says so, nothing was let through (RFC 9110, 15.5)."""
REFUSES_THE_REQUEST = frozenset({400, 404, 405, 410, 413, 415, 422})
"""With the provider's own error document, nothing was taken. From any other source they prove
nothing, as 3xx, 408, 409 and 5xx never do: the message may have been taken before."""

Reasons = Mapping[str | int, str]
"""A provider's error codes, each as a reason of the gateway type's taxonomy."""


@dataclass(frozen=True, slots=True)
class Request:
    """One POST. Its headers hold credentials, and so may its URL, so they are never shown."""

    url: URL = field(repr=False)
    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProviderReply:
    """What an answer says, whatever its shape: the message's id, or the provider's error code."""

    message_id: str | None = None
    code: str | int | None = None
    detail: str = ""


class ProviderGateway(ABC):
    """One provider at one URL. The client is shared, so its creator closes it."""

    type: ClassVar[GatewayType]
    source: ClassVar[str] = ""
    """The provider's documentation of its error codes."""
    reasons: ClassVar[Reasons]
    """Error codes that are about the item."""
    ours: ClassVar[Reasons] = {}
    """Error codes that are about us or our set-up, for any recipient."""
    ours_for_some: ClassVar[Reasons] = {}
    """Error codes that are about our set-up for some recipients only: only these wait."""
    reasons_by_status: ClassVar[Mapping[int, str]] = REASONS_BY_STATUS
    throttles: ClassVar[frozenset[str | int]] = frozenset()
    """Error codes that mean "too much, come back later", whatever the status is."""
    unfinished: ClassVar[frozenset[str | int]] = frozenset()
    """Error codes that mean an earlier request under this reference is still in progress."""
    options: ClassVar[frozenset[str]]
    refuses_with_success: ClassVar[bool] = False
    """Whether its refusals come with status 200, too."""
    addressed: ClassVar[bool] = True
    carries_enclosures: ClassVar[bool] = False
    documents: ClassVar[frozenset[str]] = frozenset()
    """Credentials that are never sent themselves, so they may have several lines: keys that sign,
    and files that contain one."""

    def __init__(self, target: Target, *credentials: str) -> None:
        target.refuse_options_but(self.type.name, self.options)
        self.memory = memory_of(self.type.remembers, target.settings.reference_memory)
        remembers = self.memory.is_memory
        self.looks_up = as_target_declares(self.type.evidence.look_up, target.settings)
        self._base = target.url
        options = sorted(target.settings.options.items())
        receipts = sorted(target.settings.credentials)
        self.recipe = recipe_of(target.url, options, target.mail_from, receipts)
        self.concurrency = target.settings.concurrency or (
            HTTP_CONCURRENCY if remembers else PROVIDER_CONCURRENCY
        )
        # What is open when a process dies is in doubt, unless its reference is remembered.
        self.window_items = max(HTTP_WINDOW_ITEMS if remembers else 1, self.concurrency)
        self._client = target.client
        self._timeout_seconds = target.settings.timeout_seconds
        values = target.credentials(*credentials)
        self._credentials = {
            name: Credential(target, name, values[name], is_sent=name not in self.documents)
            for name in credentials
        }

    @abstractmethod
    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        """The request, or why it need not be made. ValueError: it has no UTF-8 form."""

    @abstractmethod
    def read(self, body: bytes) -> ProviderReply:
        """What the answer says. Raises msgspec.DecodeError if it is not the provider's JSON."""

    def read_answer(self, answer: ReceivedAnswer) -> ProviderReply:
        """For a provider that says something in its answer's headers, too."""
        return self.read(answer.body)

    async def call(self, reservation: Reservation) -> CallResult:
        message = content(reservation, addressed=self.addressed)
        if message is None:
            return Rejected("invalid_request", INCOMPLETE)
        if message.enclosures and not self.carries_enclosures:
            return refuse_enclosures(self.type)
        reference = reservation.reference
        if not (reference.isascii() and reference.isprintable()):
            return Rejected("invalid_request", "a reference travels in a header")
        used = self._secrets()
        result = await self._post(reservation, message)
        if _is_unauthorized(result):
            is_rotated = self._secrets(read_again=True) != used
            if self.sign_out() or is_rotated:
                # Rotated or revoked since it was read; the delay is ours, so it gets a try.
                result = await self._post(reservation, message)
        return result

    async def sign_in(self) -> CallResult | None:
        """Gets the token that the request needs, where a credential is exchanged for one. None: it
        has one, or needs none. It is asked before every request, and makes few of its own."""
        return None

    def sign_out(self) -> bool:
        """The token was refused. Whether there was one that another can replace."""
        return False

    async def transmit(
        self, request: Request, begin: Callable[[], bool]
    ) -> ReceivedAnswer | AttemptError | NotBegun:
        return await self._client.post(
            request.url,
            request.body,
            request.content_type,
            headers=request.headers,
            timeout_seconds=self._timeout_seconds,
            begin=begin,
        )

    async def _post(self, reservation: Reservation, message: Content) -> CallResult:
        refusal = await self.sign_in()
        if refusal is not None:
            return refusal
        try:
            request = self.compose(reservation.reference, message)
        except ValueError as error:
            return AttemptError(Progress.NOT_SENT, "unencodable", self._detail(str(error)))
        if isinstance(request, Rejected):
            return request
        answer = await self.transmit(request, reservation.begin)
        if isinstance(answer, NotBegun):
            return answer
        if isinstance(answer, ReceivedAnswer):
            return self._interpret(answer)
        if is_about_certificates(answer):
            return Held(answer.code, answer.detail)
        if answer.progress is Progress.ANSWERED:
            # Bytes came back, but nothing that says what happened to the message.
            return AttemptError(Progress.SENT_NO_ANSWER, answer.code, answer.detail)
        return answer

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        if self.looks_up is None or not questions:
            return {}
        try:
            async with asyncio.timeout(LOOK_UP_WINDOW_SECONDS):
                return await self.find(questions)
        except TimeoutError:
            said = silence(f"not all of its answers came within {LOOK_UP_WINDOW_SECONDS:.0f} s")
        except NoAnswer as error:
            said = self.unanswered(error)
        return {each.reference: said for each in questions}

    def unanswered(self, error: NoAnswer) -> LookedUp:
        return silence(self._detail(str(error)), error.retry_after_seconds)

    @property
    def records(self) -> str:
        """Those of the account that the credentials belong to: another one's have another value,
        and so has a rotated one, which costs a verdict by absence and no more."""
        return fingerprint(self._base, self._secrets())

    async def find(
        self,
        questions: Sequence[LookUpQuestion],  # noqa: ARG002
    ) -> Mapping[IdempotencyKey, LookedUp]:
        """The provider's answers. NoAnswer: it said nothing about any of them."""
        return {}

    async def trim(self, connections: int) -> None:  # noqa: B027 - requests share one pool
        pass

    async def close(self) -> None:  # noqa: B027 - most families hold nothing of their own
        pass

    def credential(self, name: str) -> str:
        return self._credentials[name].value()

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.credential(name)}"}

    def _secrets(self, *, read_again: bool = False) -> list[str]:
        if read_again:
            for each in self._credentials.values():
                each.read_again()
        return [each.value() for each in self._credentials.values()]

    def secret_values(self) -> Iterable[str]:
        """Every text that must not appear in a detail."""
        return [credential.value() for credential in self._credentials.values()]

    def _as_refusal(self, answer: ReceivedAnswer, reply: ProviderReply) -> ReceivedAnswer:
        is_one = self.refuses_with_success and reply.code is not None and answer.status < 300
        return replace(answer, status=400) if is_one else answer

    def _interpret(self, answer: ReceivedAnswer) -> CallResult:
        reply = self._said(answer)
        answer = self._as_refusal(answer, reply)
        status = answer.status
        is_own = reply.code is not None or bool(reply.detail)
        detail = self._detail(reply.detail or words_of(self._masked(answer), quoted=not is_own))
        if 200 <= status < 300:
            # A success without a message id may still be a success, so it is not repeated lightly.
            silence = AttemptError(Progress.SENT_NO_ANSWER, "invalid_answer", detail)
            return Accepted(reply.message_id) if reply.message_id else silence
        if status in THROTTLED or reply.code in self.throttles:
            return Throttled(detail, answer.retry_after_seconds)
        if status >= 500 or reply.code in self.unfinished:
            # A server that failed may have done so after it took the message.
            code = str(reply.code) if reply.code in self.unfinished else f"http_{status}"
            return AttemptError(Progress.SENT_NO_ANSWER, code, detail)
        return self._refusal(answer, reply.code or "", detail, is_own=is_own)

    def _refusal(
        self, answer: ReceivedAnswer, code: str | int, detail: str, *, is_own: bool
    ) -> CallResult:
        status, reason = answer.status, self.reasons.get(code)
        if code in self.ours or reason == UNAUTHORIZED:
            return Held(self.ours.get(code, UNAUTHORIZED), detail)
        if code in self.ours_for_some:
            return Throttled(detail, closes=Closes.THE_ITEM, reason=self.ours_for_some[code])
        if reason is None and status in REFUSES_US:
            # Every tenant sees why a door is closed: a third party's page is not quoted there.
            return Held(UNAUTHORIZED, detail if is_own else f"HTTP {status}")
        proven = is_own and status in REFUSES_THE_REQUEST
        if reason is None and proven:
            reason = self.reasons_by_status.get(status)
        if reason in self.type.rejection_reasons:
            return Rejected(reason, detail, answer.retry_after_seconds)
        progress = Progress.ANSWERED if proven else Progress.SENT_NO_ANSWER
        return AttemptError(progress, f"http_{status}", detail)

    def _said(self, answer: ReceivedAnswer) -> ProviderReply:
        try:
            return self.read_answer(answer)
        except (msgspec.DecodeError, RecursionError):
            return ProviderReply()

    def _masked(self, answer: ReceivedAnswer) -> ReceivedAnswer:
        """Before any of it is quoted: half a credential would not be recognised."""
        body = answer.body
        for secret in self.secret_values():
            body = body.replace(secret.encode(), REDACTED.encode())
        return answer if body is answer.body else replace(answer, body=body)

    def _detail(self, text: str) -> str:
        """Some providers repeat a bad token in their error; it is removed here."""
        for secret in self.secret_values():
            text = text.replace(secret, REDACTED)
        return text[:ERROR_DETAIL_MAX_CHARACTERS]

    def not_signed_in(self, refusal: CallResult, url: URL, credential: str) -> CheckFinding:
        """For a family's `check`: what it means that `sign_in` failed."""
        if isinstance(refusal, AttemptError):
            return unanswered(url, refusal)
        detail = getattr(refusal, "detail", "")
        if isinstance(refusal, Throttled):
            return CheckWarning(CheckStep.REQUEST, f"the provider is busy: {detail}", LATER)
        message = f"the credential '{credential}' was refused: {detail}"
        return CheckFailure(CheckStep.CREDENTIAL, message, USABLE)

    async def ask(self, question: Question, seconds: float) -> CheckFinding | None:
        """For a family's `check`: what the provider's answer says about the target."""
        answer = await self._client.ask(
            question.method,
            question.url,
            headers=question.headers,
            content=question.content,
            timeout_seconds=seconds,
        )
        if isinstance(answer, AttemptError):
            return unanswered(question.url, answer)
        reply = self._said(answer)
        return judged(
            question,
            self._as_refusal(answer, reply),
            reply.code,
            self._detail(reply.detail),
            self._credentials[question.credential].reference,
            unknown=self.ours.get(reply.code or "") == UNAUTHORIZED,
        )


def _is_unauthorized(result: CallResult) -> bool:
    return isinstance(result, Held) and result.reason == UNAUTHORIZED


def json_request(url: URL, document: object, headers: Mapping[str, str]) -> Request:
    return Request(url, msgspec.json.encode(document), "application/json", headers)


def form_request(url: URL, fields: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
    """A form; a field that is None is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    form = urlencode(given).encode("ascii")
    return Request(url, form, "application/x-www-form-urlencoded", headers)
