"""Artifacts: what the phases of a campaign wrote, listed and downloaded."""

from collections.abc import AsyncIterator
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.admin import ArtifactAnswer
from outrider.api.models.common import Page
from outrider.api.route import api_router
from outrider.domain.ids import CampaignId
from outrider.kernel.transactions import artifacts
from outrider.kernel.transactions.paging import FIRST

router = api_router("artifacts")

MEDIA_TYPES = ("text/csv", "text/html", "application/json", "application/octet-stream")
BYTES = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/campaigns/{campaign_id}/artifacts",
    operation_id="listArtifacts",
    summary="List the artifacts that a campaign's phases wrote",
)
async def list_artifacts(
    campaign_id: str,
    outrider: Wired,
    asker: Asker,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[ArtifactAnswer]:
    begin = cursors.id_after(after, FIRST)
    found = await outrider.store.read(
        artifacts.page_of(asker.scope, CampaignId(campaign_id), begin, limit)
    )
    return Page(
        items=[ArtifactAnswer.of(artifact) for artifact in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )


@router.get(
    "/artifacts/{artifact_id}",
    operation_id="getArtifact",
    summary="Get an artifact's size and hash",
)
async def show(artifact_id: str, outrider: Wired, asker: Asker) -> ArtifactAnswer:
    return ArtifactAnswer.of(
        await outrider.store.read(artifacts.artifact(asker.scope, artifact_id))
    )


@router.get(
    "/artifacts/{artifact_id}/content",
    operation_id="downloadArtifact",
    summary="Download an artifact",
    response_class=Response,
    responses={
        200: {
            "description": "The bytes, whose hash is the artifact's `sha256`.",
            "content": dict.fromkeys(MEDIA_TYPES, BYTES),
        }
    },
)
async def download(artifact_id: str, outrider: Wired, asker: Asker) -> Response:
    found = await outrider.store.read(artifacts.artifact(asker.scope, artifact_id))
    pieces = outrider.artifacts.read(found.reference)
    # Read the first chunk now: a missing artifact is a 404, not half a response.
    first = await anext(pieces, b"")
    return StreamingResponse(
        _content(first, pieces),
        media_type=found.media_type,
        headers={
            # Never displayed by a browser: it would run under this server's origin.
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name)}",
            "Content-Length": str(found.size_bytes),
        },
    )


async def _content(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
