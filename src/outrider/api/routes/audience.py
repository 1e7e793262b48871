"""More recipients for a campaign: a CSV or NDJSON body, streamed to disk and then imported
whole."""

from fastapi import Request
from starlette.responses import Response

from outrider.api.context import Asker, Wired
from outrider.api.errors import ApiError
from outrider.api.idempotency import key_of
from outrider.api.models.campaigns import AudienceAdded
from outrider.api.route import BodyKind, api_router, options
from outrider.api.uploads import answer_once, received
from outrider.domain.ids import CampaignId
from outrider.kernel.transactions import campaigns
from outrider.limits.api import ApiLimits

router = api_router("campaigns")

SUFFIXES = {"text/csv": ".csv", "application/x-ndjson": ".ndjson"}
_TEXT = {"schema": {"type": "string"}}


@router.post(
    "/campaigns/{campaign_id}/audience",
    operation_id="addAudience",
    summary="Add recipients from CSV or NDJSON; on mistakes, nothing is added and all are listed",
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
    name = f"audience{_suffix(request)}"
    key_of(request.headers)
    # Checked before accepting a gigabyte for a campaign that does not exist.
    await outrider.store.read(campaigns.campaign(asker.scope, CampaignId(campaign_id)))
    async with received(request, asker, ApiLimits.upload_max_bytes, name) as upload:

        async def work() -> Response:
            done = await outrider.audience_intake.add(
                asker.scope, CampaignId(campaign_id), upload.path, asker.actor
            )
            answer = AudienceAdded(
                campaign_id=campaign_id, recipients=done.recipients, staged=done.staged
            )
            return Response(answer.model_dump_json(), media_type="application/json")

        return await answer_once(request, asker, upload, work)


def _suffix(request: Request) -> str:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in SUFFIXES:
        raise ApiError(
            415,
            "UNSUPPORTED_MEDIA_TYPE",
            "the body must be CSV or NDJSON",
            hint=f"send Content-Type: {' or '.join(SUFFIXES)}",
        )
    return SUFFIXES[given]
