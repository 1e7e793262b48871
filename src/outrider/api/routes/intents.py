"""Single messages (contract 001): the client's own id makes a repeat safe, without another key."""

import msgspec
from fastapi import Request, Response

from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.models.items import IntentAnswer, IntentBody
from outrider.api.route import api_router, options
from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import Principal
from outrider.domain.purposes import Purpose
from outrider.kernel.submissions.submission_manager import Submission, intent_document
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.kernel.transactions.submissions import Intent

router = api_router("intents")


@router.post(
    "/intents",
    status_code=201,
    operation_id="submitIntent",
    summary="Submit a single message",
    response_model=IntentAnswer,
    responses={200: {"model": IntentAnswer, "description": "The intent was submitted before."}},
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(idempotent=False),
)
async def submit(request: Request, body: IntentBody, outrider: Wired, asker: Asker) -> Response:
    text = _payload_text(await request.body())
    purpose = Purpose(body.topic, body.transactional)
    given = Submission(body.intent_id, body.submission_target, body.payload, text, purpose)
    intent, is_new = await outrider.submissions.submit(asker.scope, given)
    if is_new:
        return await _answer(outrider, asker, intent, [], 201)
    known, attempts = await outrider.submissions.intent(asker.scope, intent.intent_id)
    return await _answer(outrider, asker, known, attempts, 200)


@router.get(
    "/intents/{intent_id:path}",
    operation_id="getIntent",
    summary="Get an intent's status and attempts",
    response_model=IntentAnswer,
)
async def show(intent_id: str, outrider: Wired, asker: Asker) -> Response:
    intent, attempts = await outrider.submissions.intent(asker.scope, intent_id)
    return await _answer(outrider, asker, intent, attempts, 200)


class _Given(msgspec.Struct):
    payload: msgspec.Raw


_GIVEN = msgspec.json.Decoder(_Given)


def _payload_text(body: bytes) -> str | None:
    """The payload byte for byte: its gateway reads it, and we do not rewrite it."""
    try:
        return str(_GIVEN.decode(body).payload, "utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError):
        # JSON in an encoding other than UTF-8 is accepted, and converted.
        return None


async def _answer(
    outrider: Outrider, asker: Principal, intent: Intent, attempts: list[Attempt], status: int
) -> Response:
    """Encoded here: this route is the busiest, and its payload is already JSON."""
    contract = await outrider.submissions.contract_of(intent)
    with_url = asker.scope == DEFAULT_SCOPE
    body = msgspec.json.encode(intent_document(intent, attempts, contract, with_url=with_url))
    return Response(body, status, media_type="application/json")
