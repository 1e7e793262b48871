"""Items in doubt: listed with the reference to look for, and settled by evidence."""

from typing import Annotated

import msgspec
from fastapi import Depends, Query, Request, Response

from outrider.api import cursors
from outrider.api import doubt_exports as exports
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.doubt_exports import ExportRequest, mapping_of, meanings_of
from outrider.api.idempotency import key_of
from outrider.api.models.common import Page
from outrider.api.models.doubts import (
    AllResolved,
    DoubtAnswer,
    DoubtCountsAnswer,
    Resolved,
    VerdictBody,
    VerdictsBody,
)
from outrider.api.models.exports import Reconciled
from outrider.api.route import BodyKind, api_router, options
from outrider.api.uploads import answer_once, received
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.evidence import Settles
from outrider.domain.ids import OutboxId
from outrider.kernel.receipts.doubt_resolver import DoubtsOf
from outrider.kernel.transactions import doubt_lists, ledger_items
from outrider.kernel.transactions.doubt_lists import ALL_DOUBTS, DoubtFilter
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.campaigns import DOUBTS_COUNTED_MAX, NAME_MAX_CHARACTERS
from outrider.limits.exports import (
    EXPORT_MAX_BYTES,
    EXPORT_NAME_MAX_CHARACTERS,
    EXPORT_OPTION_MAX_CHARACTERS,
)

router = api_router("doubts")


async def _filter(
    run_id: Annotated[
        str | None, Query(alias="runId", description="Only items of this run.")
    ] = None,
    campaign_id: Annotated[
        str | None, Query(alias="campaignId", description="Only items of this campaign's runs.")
    ] = None,
    submission_target: Annotated[
        str | None,
        Query(
            alias="submissionTarget",
            max_length=NAME_MAX_CHARACTERS,
            description="Only items whose last call was to this target.",
        ),
    ] = None,
    reason: Annotated[
        str | None,
        Query(max_length=NAME_MAX_CHARACTERS, description="Only items with this `reason`."),
    ] = None,
    settles: Annotated[
        Settles | None, Query(description="Only items waiting for this evidence.")
    ] = None,
) -> DoubtFilter:
    return DoubtFilter(run_id, campaign_id, submission_target, reason, settles)


Matching = Annotated[DoubtFilter, Depends(_filter)]


@router.get("/doubts", operation_id="listDoubts", summary="List items in doubt")
async def list_doubts(
    outrider: Wired,
    asker: Asker,
    matching: Matching,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[DoubtAnswer]:
    begin = cursors.id_after(after, FIRST)
    found = await outrider.store.read(doubt_lists.page(asker.scope, matching, begin, limit))
    return Page(
        items=[DoubtAnswer.of(doubt) for doubt in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )


@router.get(
    "/doubts/counts",
    operation_id="countDoubts",
    summary="Count items in doubt by evidence, target, reason and campaign",
)
async def count(outrider: Wired, asker: Asker, matching: Matching) -> DoubtCountsAnswer:
    counts, names = await outrider.store.read(
        doubt_lists.named_counts(asker.scope, matching, DOUBTS_COUNTED_MAX)
    )
    return DoubtCountsAnswer.of(counts, names, DOUBTS_COUNTED_MAX)


@router.post(
    "/doubts/resolve",
    operation_id="resolveDoubts",
    summary="Resolve many items at once; without `confirm` they are only counted",
)
async def resolve_all(body: VerdictsBody, outrider: Wired, asker: Asker) -> AllResolved:
    ids = [OutboxId(each) for each in body.ids] if body.ids is not None else None
    if ids is not None and body.matching != ALL_DOUBTS:
        raise InvalidInput(
            "give either item IDs, or what they match",
            [Problem("ids", "cannot be combined with a filter")],
        )
    of = DoubtsOf(body.matching, ids)
    resolver = outrider.doubt_resolver
    matching = await resolver.count(asker.scope, of)
    resolved, left = 0, matching
    if body.confirm:
        resolved = await resolver.resolve_all(
            asker.scope, of, body.verdict, body.evidence, asker.actor, force=body.force
        )
        left = await resolver.count(asker.scope, of)
    return AllResolved(matching=matching, resolved=resolved, left=left, confirmed=body.confirm)


@router.post(
    "/doubts/reconcile",
    operation_id="reconcileDoubts",
    summary="Match a provider's export with doubts; without `confirm` nothing is changed",
    response_model=Reconciled,
    openapi_extra=options(
        body=BodyKind.STREAM,
        body_most=EXPORT_MAX_BYTES,
        request_body={
            "required": True,
            "content": {
                "application/octet-stream": {
                    "schema": {"type": "string"},
                    "example": "Client Ref,Status\n3f0c…,delivered\n",
                }
            },
        },
    ),
)
async def reconcile(
    request: Request,
    outrider: Wired,
    asker: Asker,
    submission_target: Annotated[
        str,
        Query(
            alias="submissionTarget",
            min_length=1,
            max_length=NAME_MAX_CHARACTERS,
            description="The target whose provider made the export.",
        ),
    ],
    file_name: Annotated[
        str, Query(alias="fileName", max_length=EXPORT_NAME_MAX_CHARACTERS)
    ] = "export",
    mapping: Annotated[
        str | None,
        Query(
            description='The column of each field, as JSON: `{"reference": "Client Ref"}`. Fields:'
            " reference, providerMessageId, recipient, time, status. By default they are guessed.",
            max_length=EXPORT_OPTION_MAX_CHARACTERS,
        ),
    ] = None,
    statuses: Annotated[
        str | None,
        Query(
            description='What statuses mean, as JSON: `{"hold": "failed"}`. Meanings: sent, failed,'
            " not_received, unclear.",
            max_length=EXPORT_OPTION_MAX_CHARACTERS,
        ),
    ] = None,
    absent: Annotated[
        DoubtVerdict | None,
        Query(description="If the export is complete: the verdict on items that are not in it."),
    ] = None,
    run_id: Annotated[str | None, Query(alias="runId")] = None,
    campaign_id: Annotated[str | None, Query(alias="campaignId")] = None,
    force: Annotated[
        bool, Query(description="Include items whose worker may still be running.")
    ] = False,
    confirm: Annotated[
        bool, Query(description="Apply it; otherwise it is only a preview.")
    ] = False,
) -> Response:
    key_of(request.headers)
    fields = _texts(mapping, "mapping")
    means = _texts(statuses, "statuses")
    async with received(request, asker, EXPORT_MAX_BYTES, "export") as upload:
        given = ExportRequest(
            submission_target, file_name, upload.sha256,
            mapping_of(fields, "mapping") if fields is not None else None,
            meanings_of(means or {}, "statuses"), absent, run_id, campaign_id, force,
        )  # fmt: skip

        async def work() -> Response:
            answer = await exports.reconcile(
                outrider, asker.scope, upload.path, given, asker.actor, apply=confirm
            )
            return Response(answer.model_dump_json(), media_type="application/json")

        return await answer_once(request, asker, upload, work)


def _texts(given: str | None, name: str) -> dict[str, str] | None:
    if given is None:
        return None
    try:
        return msgspec.json.decode(given, type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise InvalidInput(
            f"the {name} cannot be read",
            [Problem(name, f"should be a JSON object of texts: {error}")],
        ) from error


@router.post(
    "/doubts/{outbox_id}/resolve",
    operation_id="resolveDoubt",
    summary="Resolve an item in doubt, with evidence",
)
async def resolve(outbox_id: str, body: VerdictBody, outrider: Wired, asker: Asker) -> Resolved:
    item = await outrider.store.read(ledger_items.item(asker.scope, OutboxId(outbox_id)))
    await outrider.doubt_resolver.resolve(
        asker.scope, item.id, body.verdict, body.evidence, asker.actor, force=body.force
    )
    return Resolved(outbox_id=item.id, verdict=body.verdict)
