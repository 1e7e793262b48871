"""More recipients for a campaign: a CSV or NDJSON body, streamed to disk and then taken whole."""

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from starlette.responses import Response

from outrider.api.bodies import check_length, too_large
from outrider.api.context import Asker, Wired, services_of
from outrider.api.errors import ApiError
from outrider.api.idempotency import fingerprint, key_of
from outrider.api.models.campaigns import AudienceAdded
from outrider.api.route import BodyKind, answered, api_router, options
from outrider.domain.ids import CampaignId
from outrider.kernel.transactions import campaigns
from outrider.settings import ApiLimits

router = api_router("campaigns")

SUFFIXES = {"text/csv": ".csv", "application/x-ndjson": ".ndjson"}
_TEXT = {"schema": {"type": "string"}}


@router.post(
    "/campaigns/{campaign_id}/audience",
    operation_id="addAudience",
    summary="Add recipients as CSV or NDJSON: all of them, or nothing and every mistake",
    response_model=AudienceAdded,
    openapi_extra=options(
        body=BodyKind.STREAM,
        body_most=ApiLimits.upload_max_bytes,
        request_body={
            "required": True,
            "content": {
                "text/csv": {**_TEXT, "example": "id,email,firstName\nlead-1,a@example.test,Ada\n"},
                "application/x-ndjson": {**_TEXT, "example": '{"id": "lead-1"}\n'},
            },
        },
    ),
)
async def add(campaign_id: str, request: Request, outrider: Wired, asker: Asker) -> Response:
    suffix = _suffix(request)
    key = key_of(request.headers)
    check_length(request, ApiLimits.upload_max_bytes)
    # Before a gigabyte is taken in for a campaign that is not there.
    await outrider.store.read(campaigns.campaign(asker.scope, CampaignId(campaign_id)))
    with tempfile.TemporaryDirectory(prefix="outrider-upload-") as folder:
        path = Path(folder) / f"audience{suffix}"
        with path.open("wb") as file:
            digest = await _store(request, file)

        async def work() -> Response:
            done = await outrider.audience_intake.add(
                asker.scope, CampaignId(campaign_id), path, asker.actor
            )
            answer = AudienceAdded(
                campaign_id=campaign_id, recipients=done.recipients, staged=done.staged
            )
            return Response(answer.model_dump_json(), media_type="application/json")

        if key is None:
            return await work()
        return await services_of(request).once.answer(
            asker.scope, key, fingerprint(request, digest), answered(work)
        )


def _suffix(request: Request) -> str:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in SUFFIXES:
        raise ApiError(
            415,
            "UNSUPPORTED_MEDIA_TYPE",
            "the body should be CSV or NDJSON",
            hint=f"send Content-Type: {' or '.join(SUFFIXES)}",
        )
    return SUFFIXES[given]


async def _store(request: Request, file: BinaryIO) -> str:
    """The SHA-256 of what came."""
    digest, size = hashlib.sha256(), 0
    async for piece in request.stream():
        size += len(piece)
        if size > ApiLimits.upload_max_bytes:
            raise too_large(ApiLimits.upload_max_bytes)
        digest.update(piece)
        await asyncio.to_thread(file.write, piece)
    return digest.hexdigest()
