"""Many intents in one request or file: each is read, submitted and answered for itself."""

from typing import Any

import msgspec
from pydantic import ValidationError

from outrider.api.errors import answer_to, unforeseen
from outrider.api.models.intents import IntentBody
from outrider.documents import Problems, strict_json
from outrider.domain.errors import InvalidInput, OutriderError
from outrider.domain.purposes import Purpose
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.submissions import Intent

CREATED, KNOWN = 201, 200


class _Given(msgspec.Struct):
    payload: msgspec.Raw


class _Batch(msgspec.Struct):
    intents: list[msgspec.Raw]


_GIVEN = msgspec.json.Decoder(_Given)
_BATCH = msgspec.json.Decoder(_Batch)


def payload_text(body: bytes | msgspec.Raw) -> str | None:
    """The payload exactly as written: its gateway interprets it, and we do not rewrite it."""
    try:
        return str(_GIVEN.decode(body).payload, "utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError):
        # JSON in other encodings is accepted too, and forwarded as UTF-8.
        return None


def submission_of(body: IntentBody, text: str | None) -> Submission:
    return Submission(
        body.intent_id,
        body.submission_target,
        body.payload,
        text,
        Purpose(body.topic, body.transactional),
        body.callback_url,
        body.time_zone,
    )


def read_batch(raw: bytes, given: list[Any]) -> list[Submission | InvalidInput]:
    """`given` is what the body's JSON is, `raw` how it was spelt."""
    try:
        spelt: list[msgspec.Raw] | list[None] = _BATCH.decode(raw).intents
    except msgspec.DecodeError:
        spelt = [None] * len(given)
    return [
        _read(each, None if text is None else payload_text(text))
        for each, text in zip(given, spelt, strict=True)
    ]


def read_line(raw: bytes) -> Submission | InvalidInput:
    """One intent as a line of a file."""
    try:
        return _read(strict_json(raw), payload_text(raw))
    except InvalidInput as error:
        return error


def _read(given: object, text: str | None) -> Submission | InvalidInput:
    try:
        return submission_of(IntentBody.model_validate(given), text)
    except ValidationError as error:
        problems = Problems("intent")
        problems.add_all(error)
        return problems.error()


def item_answer(
    intent_id: str | None, answer: tuple[Intent, bool] | OutriderError
) -> dict[str, Any]:
    """As the door for one of them would answer it: with which status, and what."""
    if isinstance(answer, OutriderError):
        response = answer_to(answer) or unforeseen()
        error = msgspec.json.decode(bytes(response.body))["error"]
        return {"status": response.status_code, "intentId": intent_id, "error": error}
    intent, is_new = answer
    return {
        "status": CREATED if is_new else KNOWN,
        "intentId": intent.intent_id,
        "outboxId": intent.outbox_id,
        "intentStatus": intent.status,
    }


def named(given: object) -> str | None:
    """What an item that could not be read calls itself."""
    name = given.get("intentId") if isinstance(given, dict) else None
    return name if isinstance(name, str) else None
