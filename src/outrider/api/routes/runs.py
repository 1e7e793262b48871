"""Runs: listed, shown, explained and certified, with their jobs and their ledger items."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from fastapi import Query
from starlette.responses import Response, StreamingResponse

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.common import Page
from outrider.api.models.items import ItemLine
from outrider.api.models.runs import (
    CertificateAnswer,
    JobAnswer,
    RunAnswer,
    RunExplanation,
    RunLine,
    ThroughputAnswer,
)
from outrider.api.models.variants import RunVariantsAnswer
from outrider.api.route import api_router
from outrider.domain.ids import CampaignId, RunId
from outrider.domain.states import ItemStatus
from outrider.kernel.transactions import run_pictures, variants
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.kernel.transactions.paging import FIRST, LAST
from outrider.limits.api import ApiLimits
from outrider.limits.campaigns import RECIPIENT_ID_MAX_CHARACTERS

router = api_router("runs")

THROUGHPUT_BUCKETS = 60
NDJSON = "application/x-ndjson"


@router.get(
    "/campaigns/{campaign_id}/runs",
    operation_id="listRuns",
    summary="List a campaign's runs with their accounting, newest first",
)
async def list_runs(
    campaign_id: str,
    outrider: Wired,
    asker: Asker,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[RunLine]:
    before = cursors.id_after(after, LAST)
    found = await outrider.store.read(
        run_pictures.page(asker.scope, CampaignId(campaign_id), before, limit)
    )
    return Page(
        items=[RunLine.of(run, accounting) for run, accounting in found],
        next=cursors.encode(found[-1][0].id) if len(found) == limit else None,
    )


@router.get("/runs/{run_id}", operation_id="getRun", summary="Get a run with its accounting")
async def show(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    reasons: Annotated[
        bool, Query(description="Also count the items' reasons, which reads every item.")
    ] = True,
) -> RunAnswer:
    picture = await outrider.store.read(
        run_pictures.picture(asker.scope, RunId(run_id), reasons=reasons)
    )
    return RunAnswer.whole(*picture, await outrider.blocker_finder.of_run(RunId(run_id)))


@router.get(
    "/runs/{run_id}/variants",
    operation_id="getVariants",
    summary="Get the A/B variants of a run's messages with their figures",
)
async def variants_of(run_id: str, outrider: Wired, asker: Asker) -> RunVariantsAnswer:
    rule, found = await outrider.store.read(variants.of_run(asker.scope, RunId(run_id)))
    return RunVariantsAnswer.of(run_id, rule, found)


@router.get(
    "/runs/{run_id}/explain",
    operation_id="explainRun",
    summary="Explain a run's status",
)
async def explain(run_id: str, outrider: Wired, asker: Asker) -> RunExplanation:
    sentences = await outrider.run_explainer.explain(asker.scope, RunId(run_id))
    return RunExplanation(run_id=run_id, sentences=sentences)


@router.get(
    "/runs/{run_id}/certificate",
    operation_id="getCertificate",
    summary="Get the launch certificate, counted from the ledger",
)
async def certificate(run_id: str, outrider: Wired, asker: Asker) -> CertificateAnswer:
    proof = await outrider.certifier.document(asker.scope, RunId(run_id))
    return CertificateAnswer.model_validate(proof)


@router.get(
    "/runs/{run_id}/evidence",
    operation_id="getEvidence",
    summary="Download a run's signed evidence bundle, or one recipient's proof",
    response_class=Response,
    responses={
        200: {
            "description": "The bundle, one JSON array per line; or the proof, one JSON document.",
            "content": {NDJSON: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def evidence(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    recipient_id: Annotated[
        str | None, Query(alias="recipientId", description="Only this recipient's proof.")
    ] = None,
) -> Response:
    writer = outrider.evidence_writer
    if recipient_id is not None:
        proof = await writer.inclusion(asker.scope, RunId(run_id), recipient_id)
        return Response(proof, media_type="application/json")
    lines = writer.bundle(asker.scope, RunId(run_id))
    # Made before the answer begins: a run that has not ended is a 409, not half a response.
    first = await anext(lines)
    return StreamingResponse(
        _lines(first, lines),
        media_type=NDJSON,
        headers={"Content-Disposition": f'attachment; filename="evidence-{run_id}.ndjson"'},
    )


async def _lines(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for line in rest:
        yield line


@router.get(
    "/runs/{run_id}/throughput",
    operation_id="getThroughput",
    summary="Get a run's throughput over time",
)
async def throughput(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    buckets: Annotated[
        int, Query(ge=1, le=ApiLimits.throughput_buckets, description="Number of intervals.")
    ] = THROUGHPUT_BUCKETS,
) -> ThroughputAnswer:
    found = await outrider.store.read(
        run_pictures.throughput(asker.scope, RunId(run_id), buckets, outrider.clock.now())
    )
    return ThroughputAnswer.of(*found)


@router.get("/runs/{run_id}/jobs", operation_id="listJobs", summary="List a run's jobs")
async def list_jobs(
    run_id: str, outrider: Wired, asker: Asker, limit: Limit = PAGE_DEFAULT, after: After = None
) -> Page[JobAnswer]:
    begin = cursors.id_after(after, FIRST)
    lines = await outrider.store.read(run_pictures.jobs(asker.scope, RunId(run_id), begin, limit))
    return Page(
        items=[JobAnswer.of(line, _decoded(line.result)) for line in lines],
        next=cursors.encode(lines[-1].id) if len(lines) == limit else None,
    )


@router.get("/runs/{run_id}/outbox", operation_id="listOutbox", summary="List a run's ledger items")
async def list_outbox(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    status: Annotated[ItemStatus | None, Query(description="Only items with this status.")] = None,
    recipient_id: Annotated[
        str | None,
        Query(
            alias="recipientId",
            max_length=RECIPIENT_ID_MAX_CHARACTERS,
            pattern=r"^[^\x00-\x1f]+$",
            description="Only items of this recipient.",
        ),
    ] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[ItemLine]:
    begin = LedgerPosition(*cursors.decode_ids(after, 2)) if after is not None else None
    items = await outrider.store.read(
        run_pictures.items(asker.scope, RunId(run_id), limit, recipient_id, status, begin)
    )
    last = items[-1] if len(items) == limit else None
    return Page(
        items=[ItemLine.of(item) for item in items],
        next=cursors.encode(last.job_id or FIRST, last.id) if last else None,
    )


def _decoded(result: str | None) -> dict[str, Any] | None:
    return msgspec.json.decode(result, type=dict[str, Any]) if result else None
