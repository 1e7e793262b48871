"""Campaigns: created whole or not at all, listed, shown, previewed."""

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request
from starlette.responses import Response

from outrider.api import cursors
from outrider.api.bodies import require_json
from outrider.api.context import NEEDS_REGISTRY, PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.idempotency import key_of
from outrider.api.models.campaigns import (
    CampaignAnswer,
    CampaignCreated,
    CampaignLine,
    campaign_document,
)
from outrider.api.models.common import Page
from outrider.api.models.previews import Preview, PreviewBody
from outrider.api.route import BodyKind, api_router, options
from outrider.api.uploads import answer_once, received
from outrider.domain.campaign_states import CampaignState
from outrider.domain.ids import CampaignId
from outrider.kernel.transactions import campaigns, overview
from outrider.kernel.transactions.paging import LAST
from outrider.limits.api import ApiLimits
from outrider.limits.campaigns import NAME_MAX_CHARACTERS

router = api_router("campaigns")


@router.post(
    "/campaigns",
    status_code=201,
    operation_id="createCampaign",
    summary="Create a campaign; on mistakes, nothing is created and all are listed",
    response_model=CampaignCreated,
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(
        body=BodyKind.STREAM,
        body_most=ApiLimits.campaign_max_bytes,
        request_body={
            "required": True,
            "content": {"application/json": {"schema": campaign_document()}},
        },
    ),
)
async def create(request: Request, outrider: Wired, asker: Asker) -> Response:
    key_of(request.headers)
    async with received(request, asker, ApiLimits.campaign_max_bytes, "campaign.json") as upload:

        async def work() -> Response:
            require_json(request)
            phases = outrider.known_phases
            reading = outrider.document_reader.campaign(asker.scope, upload.path, phases)
            async with reading as (definition, recipients):
                campaign_id, size = await outrider.deployer.create(
                    asker.scope, definition, recipients, asker.actor
                )
            warnings = await outrider.previewer.warnings(campaign_id, definition.texts, size)
            created = CampaignCreated(
                campaign_id=campaign_id,
                name=definition.name,
                recipients=size,
                phases=list(definition.phases),
                warnings=warnings,
            )
            return Response(created.model_dump_json(), 201, media_type="application/json")

        return await answer_once(request, asker, upload, work)


@router.get(
    "/campaigns",
    operation_id="listCampaigns",
    summary="List campaigns with their state, newest first",
)
async def list_campaigns(
    outrider: Wired,
    asker: Asker,
    state: Annotated[
        CampaignState | None, Query(description="Only campaigns in this overall state.")
    ] = None,
    words: Annotated[
        str | None,
        Query(
            alias="q",
            min_length=1,
            max_length=NAME_MAX_CHARACTERS,
            pattern=r"^[^\x00-\x1f]+$",
            description="Only campaigns with this text in their name, or with this ID.",
        ),
    ] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[CampaignLine]:
    """With a filter a page may be short, or empty, even if more pages follow."""
    page = await outrider.store.read(
        overview.overview_page(
            asker.scope,
            cursors.id_after(after, LAST),
            limit,
            state=state,
            words=words,
            looked_through=outrider.limits.campaigns_looked_through,
        )
    )
    return Page(
        items=[CampaignLine.of(campaign) for campaign in page.campaigns],
        next=cursors.encode(page.next) if page.next else None,
    )


@router.get(
    "/campaigns/{campaign_id}",
    operation_id="getCampaign",
    summary="Get a campaign's definition, without its audience",
)
async def show(campaign_id: str, outrider: Wired, asker: Asker) -> CampaignAnswer:
    record = await outrider.store.read(campaigns.campaign(asker.scope, CampaignId(campaign_id)))
    definition: dict[str, Any] = msgspec.json.decode(record.definition)
    return CampaignAnswer.model_validate(
        {
            **definition,
            "campaignId": record.id,
            "recipients": record.audience_size,
            "lastSequence": record.last_sequence,
            "createdAt": record.created_at,
        }
    )


@router.post(
    "/campaigns/{campaign_id}/preview",
    operation_id="previewMessage",
    summary="Preview a message for one recipient; nothing is sent",
)
async def preview(
    campaign_id: str, outrider: Wired, asker: Asker, body: PreviewBody | None = None
) -> Preview:
    asked = body or PreviewBody()
    found = await outrider.previewer.preview(
        asker.scope,
        CampaignId(campaign_id),
        asked.recipient_id,
        asked.message_id,
        asked.variant,
    )
    return Preview.model_validate(found)
