"""What needs attention: alerts, newest first."""

from typing import Annotated

from fastapi import Query

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.bus import AlertAnswer
from outrider.api.models.common import Page
from outrider.api.route import api_router
from outrider.kernel.transactions.alerts import LAST, alerts_page

router = api_router("alerts")


@router.get("/alerts", operation_id="listAlerts", summary="Alerts of the workspace, newest first")
async def list_alerts(
    outrider: Wired,
    asker: Asker,
    standing: Annotated[bool, Query(description="Only open alerts.")] = False,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[AlertAnswer]:
    before = cursors.id_after(after, LAST)
    found = await outrider.store.read(alerts_page(asker.scope, before, limit, only_open=standing))
    return Page(
        items=[AlertAnswer.of(alert, outrider.settings.public_url) for alert in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )
