"""Single messages (contract 001): the client's own id makes a repeat safe, without another key."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from outrider.api import cursors
from outrider.api.context import NEEDS_REGISTRY, PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.intent_batches import (
    item_answer,
    named,
    payload_text,
    read_batch,
    submission_of,
)
from outrider.api.models.common import Page
from outrider.api.models.intents import (
    CallbackSecretAnswer,
    IntentAnswer,
    IntentBatchAnswer,
    IntentBatchBody,
    IntentBody,
    IntentLineAnswer,
)
from outrider.api.route import api_router, options
from outrider.bootstrap import Outrider
from outrider.domain.blocker_facts import Blocker
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope, Principal
from outrider.domain.states import IntentStatus
from outrider.kernel.submissions.intent_documents import intent_document
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.kernel.transactions.paging import LAST
from outrider.kernel.transactions.resubmissions import NOT_RESUBMITTED
from outrider.kernel.transactions.submissions import Intent
from outrider.limits.api import ApiLimits
from outrider.limits.campaigns import NAME_MAX_CHARACTERS

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
    given = submission_of(body, payload_text(await request.body()))
    intent, is_new = await outrider.submissions.submit(asker.scope, given)
    if is_new:
        return await _answer(outrider, asker, intent, [], 201)
    known, attempts = await outrider.submissions.intent(asker.scope, intent.intent_id)
    return await _answer(outrider, asker, known, attempts, 200)


@router.post(
    "/intents/batch",
    operation_id="submitIntents",
    summary="Submit up to 1,000 messages in one commit, each with its own answer",
    response_model=IntentBatchAnswer,
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(idempotent=False, body_most=ApiLimits.intent_batch_max_bytes),
)
async def submit_batch(
    request: Request, body: IntentBatchBody, outrider: Wired, asker: Asker
) -> Response:
    read = read_batch(await request.body(), body.intents)
    fit = [each for each in read if isinstance(each, Submission)]
    answers = iter(await outrider.submissions.submit_each(asker.scope, fit))
    items = [
        item_answer(each.intent_id, next(answers))
        if isinstance(each, Submission)
        else item_answer(named(given), each)
        for each, given in zip(read, body.intents, strict=True)
    ]
    return Response(msgspec.json.encode({"items": items}), media_type="application/json")


@router.get(
    "/intents",
    operation_id="listIntents",
    summary="List the intents of the workspace, newest first",
    description="With `status` or `submissionTarget`, a page examines at most 10,000 intents:"
    " it may have fewer items than requested and still have a `next`.",
)
async def list_intents(
    outrider: Wired,
    asker: Asker,
    status: Annotated[
        IntentStatus | None, Query(description="Only intents with this status.")
    ] = None,
    target: Annotated[
        str | None,
        Query(
            alias="submissionTarget",
            min_length=1,
            max_length=NAME_MAX_CHARACTERS,
            description="Only intents for this target.",
        ),
    ] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[IntentLineAnswer]:
    lines, end = await outrider.submissions.page(
        asker.scope, cursors.id_after(after, LAST), limit, status=status, submission_target=target
    )
    return Page(
        items=[IntentLineAnswer.of(line) for line in lines],
        next=None if end is None else cursors.encode(end),
    )


@router.get(
    "/callbacks/secret",
    operation_id="getCallbackSecret",
    summary="Get the secret that signs the workspace's callbacks",
    openapi_extra=options(scope=KeyScope.ADMIN),
)
async def callback_secret(
    response: Response, outrider: Wired, asker: Asker
) -> CallbackSecretAnswer:
    response.headers["Cache-Control"] = "no-store"
    return CallbackSecretAnswer(secret=await outrider.callback_secrets.text_of(asker.scope))


@router.get(
    "/intents/{intent_id:path}",
    operation_id="getIntent",
    summary="Get an intent's status and attempts",
    response_model=IntentAnswer,
)
async def show(intent_id: str, outrider: Wired, asker: Asker) -> Response:
    intent, attempts = await outrider.submissions.intent(asker.scope, intent_id)
    item = await outrider.store.read(ledger_items.item(asker.scope, intent.outbox_id))
    blockers = await outrider.blocker_finder.of_items(asker.scope, [item])
    return await _answer(outrider, asker, intent, attempts, 200, blockers, links=True)


@router.post(
    "/intents/{intent_id:path}/resubmit",
    status_code=201,
    operation_id="resubmitIntent",
    summary="Send an exhausted or rejected intent after all, as a new, linked intent",
    description="The ended intent is not changed. The new one has the same target and payload, and"
    " the ID of the first with `~2`, `~3` and so on. An intent is resubmitted once: repeating this"
    " returns the same new intent.",
    response_model=IntentAnswer,
    responses={200: {"model": IntentAnswer, "description": "It was resubmitted before."}},
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(idempotent=False),
)
async def resubmit(intent_id: str, outrider: Wired, asker: Asker) -> Response:
    new, is_new = await outrider.intent_resubmitter.resubmit(asker.scope, intent_id, asker.actor)
    intent, attempts = await outrider.submissions.intent(asker.scope, new.intent_id)
    return await _answer(outrider, asker, intent, attempts, 201 if is_new else 200, links=True)


async def _answer(
    outrider: Outrider,
    asker: Principal,
    intent: Intent,
    attempts: list[Attempt],
    status: int,
    blockers: Sequence[Blocker] = (),
    *,
    links: bool = False,
) -> Response:
    """Encoded here: this route is the busiest, and its payload is already JSON."""
    contract = await outrider.submissions.contract_of(intent)
    with_url = asker.scope == DEFAULT_SCOPE
    known = await outrider.intent_resubmitter.links(intent) if links else NOT_RESUBMITTED
    found = intent_document(intent, attempts, contract, with_url=with_url, links=known)
    body = msgspec.json.encode({**found, "blockers": [each.as_document() for each in blockers]})
    return Response(body, status, media_type="application/json")
