"""Single messages (contract 001): the client's own id makes a repeat safe, without another key."""

import msgspec
from fastapi import Response

from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.models.items import IntentAnswer, IntentBody
from outrider.api.route import api_router, options
from outrider.domain.purposes import Purpose
from outrider.kernel.submission_manager import Submission, intent_document
from outrider.kernel.transactions.inspection import Attempt
from outrider.kernel.transactions.submissions import Intent

router = api_router("intents")


@router.post(
    "/intents",
    status_code=201,
    operation_id="submitIntent",
    summary="Submit one message under its target's contract",
    response_model=IntentAnswer,
    responses={200: {"model": IntentAnswer, "description": "It was submitted before."}},
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(idempotent=False),
)
async def submit(body: IntentBody, outrider: Wired, asker: Asker) -> Response:
    purpose = Purpose(body.topic, body.transactional)
    given = Submission(body.intent_id, body.submission_target, body.payload, purpose)
    intent, is_new = await outrider.submissions.submit(asker.scope, given)
    if is_new:
        return _answer(intent, [], 201)
    known, attempts = await outrider.submissions.intent(asker.scope, intent.intent_id)
    return _answer(known, attempts, 200)


@router.get(
    "/intents/{intent_id:path}",
    operation_id="getIntent",
    summary="An intent's status under its contract, with its attempts",
    response_model=IntentAnswer,
)
async def show(intent_id: str, outrider: Wired, asker: Asker) -> Response:
    intent, attempts = await outrider.submissions.intent(asker.scope, intent_id)
    return _answer(intent, attempts, 200)


def _answer(intent: Intent, attempts: list[Attempt], status: int) -> Response:
    """Encoded here: this door is the busiest, and its payload is JSON already."""
    body = msgspec.json.encode(intent_document(intent, attempts))
    return Response(body, status, media_type="application/json")
