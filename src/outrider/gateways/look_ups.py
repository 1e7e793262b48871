"""The common part of the families' look-ups, which ask a provider what it received.

If a provider does not answer, or answers with something else, the result is unknown.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import msgspec
from yarl import URL

from outrider.domain.call_results import AttemptError
from outrider.domain.evidence import ABSENT, Finding, LookedUp, LookUp, Match, silence
from outrider.domain.ids import IdempotencyKey
from outrider.gateways.http import ReceivedAnswer
from outrider.limits.gateways import (
    LOOK_UP_CLOCK_SECONDS,
    LOOK_UP_DELAY_SECONDS,
    LOOK_UP_FAILURES_MAX,
    LOOK_UP_RETENTION_SECONDS,
    LOOK_UP_SECONDS,
    LOOK_UP_WINDOW_SECONDS,
)
from outrider.ports.gateway import LookUpQuestion
from outrider.settings import TargetSettings

if TYPE_CHECKING:
    from outrider.gateways.http_client import HttpClient

Document = TypeVar("Document")


GONE = frozenset({404, 410})
TOO_LARGE = "answer_too_large"


class NoAnswer(Exception):
    """The provider did not say; the message says why, without any secret."""

    def __init__(
        self, why: str, retry_after_seconds: float | None = None, *, is_final: bool = False
    ) -> None:
        super().__init__(why)
        self.retry_after_seconds = retry_after_seconds
        self.is_final = is_final
        """It will not say it later either: it is no longer there, or larger than an answer."""


async def get_json(
    client: "HttpClient",
    url: URL,
    decoder: msgspec.json.Decoder[Document],
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    content: bytes = b"",
    asked_at: datetime | None = None,
) -> Document:
    """Raises NoAnswer unless the provider answers 2xx with a document of that form. `asked_at`: the
    document has times, which are comparable only if its clock agrees with ours."""
    answer = await client.ask(
        method, url, headers=headers, content=content, timeout_seconds=LOOK_UP_SECONDS
    )
    if isinstance(answer, AttemptError):
        why = f"{answer.code}: {answer.detail}" if answer.detail else answer.code
        raise NoAnswer(why, is_final=answer.code == TOO_LARGE)
    if not 200 <= answer.status < 300:
        raise NoAnswer(
            f"HTTP {answer.status}", answer.retry_after_seconds, is_final=answer.status in GONE
        )
    if asked_at is not None:
        _compare_clocks(answer, asked_at)
    try:
        return decoder.decode(answer.body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NoAnswer(f"not its documented answer: {error}") from error


def _compare_clocks(answer: ReceivedAnswer, asked_at: datetime) -> None:
    """A provider that is behind dates what it took before the call, where nobody looks for it."""
    try:
        date = parsedate_to_datetime(answer.date or "")
    except (ValueError, OverflowError):
        # It does not say its time: the target's delay is all that is known.
        return
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    off_seconds = (date - asked_at).total_seconds()
    # A window of questions takes a while, so that the later answers are later by that.
    if not -LOOK_UP_CLOCK_SECONDS < off_seconds < LOOK_UP_CLOCK_SECONDS + LOOK_UP_WINDOW_SECONDS:
        raise NoAnswer(f"its clock differs from the ledger's by {off_seconds:.0f} s")


def as_target_declares(look_up: LookUp | None, settings: TargetSettings) -> LookUp | None:
    """The family's look-up, with what the target says of its provider's records."""
    if look_up is None:
        return None
    delay, retention = settings.look_up_delay_seconds, settings.look_up_retention_seconds
    return replace(
        look_up,
        delay_seconds=look_up.delay_seconds if delay is None else delay,
        retention_seconds=look_up.retention_seconds if retention is None else retention,
    )


async def asked_one_by_one(
    questions: Sequence[LookUpQuestion],
    ask: Callable[[LookUpQuestion], Awaitable[LookedUp]],
    unanswered: Callable[[NoAnswer], LookedUp],
) -> dict[IdempotencyKey, LookedUp]:
    """For a provider that is asked for each message by itself, as long as it answers."""
    answers, failures = dict[IdempotencyKey, LookedUp](), 0
    until = monotonic() + LOOK_UP_WINDOW_SECONDS - LOOK_UP_SECONDS
    for question in questions:
        if monotonic() > until:
            # The others get no answer for now.
            break
        try:
            answers[question.reference] = await ask(question)
            failures = 0
        except NoAnswer as error:
            failures += 1
            answers[question.reference] = unanswered(error)
            if failures == LOOK_UP_FAILURES_MAX or error.retry_after_seconds is not None:
                break
    return answers


def found_by_reference(ids: Sequence[str]) -> LookedUp:
    """What a provider has under our reference."""
    if not ids:
        return ABSENT
    return LookedUp(Finding.FOUND, tuple(ids), "its reference is there")


class DeclaredLookUp:
    """A look-up by reference at a URL that the target names.

    `POST {lookUpUrl}` with `{"referenceIds": [...]}` is answered with
    `{"messages": [{"referenceId", "gatewayMessageId"?}]}`: those that were received.
    """

    def __init__(self, url: str, client: "HttpClient", settings: TargetSettings) -> None:
        self._url = URL(url)
        self._client = client
        declared = LookUp(
            Match.REFERENCE,
            LOOK_UP_DELAY_SECONDS,
            LOOK_UP_RETENTION_SECONDS,
            "`POST` the target's `look_up_url`",
            url,
        )
        self.evidence = as_target_declares(declared, settings)
        self.records = fingerprint(url)

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        references = [each.reference for each in questions]
        asked = msgspec.json.encode({"referenceIds": references})
        try:
            found = await get_json(self._client, self._url, _found, method="POST", content=asked)
        except NoAnswer as error:
            return dict.fromkeys(references, silence(str(error), error.retry_after_seconds))
        received = {each.reference_id: each.gateway_message_id for each in found.messages}
        return {each: _received(each, received) for each in references}


def _received(reference: str, received: Mapping[str, str | None]) -> LookedUp:
    if reference not in received:
        return ABSENT
    known = received[reference]
    return LookedUp(Finding.FOUND, () if known is None else (known,), "its reference is there")


class _Message(msgspec.Struct, rename="camel"):
    reference_id: str
    gateway_message_id: str | None = None


class _Found(msgspec.Struct):
    messages: list[_Message]


_found = msgspec.json.Decoder(_Found)


def declared_look_up(client: "HttpClient", settings: TargetSettings) -> DeclaredLookUp | None:
    if settings.look_up_url is None:
        return None
    return DeclaredLookUp(settings.look_up_url, client, settings)


def recipe_of(*parts: object) -> str:
    """A short fingerprint of what requests are made of."""
    return fingerprint(version("outrider"), *parts)


def fingerprint(*parts: object) -> str:
    made_of = [str(each) for each in parts]
    return hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()[:32]
