"""What needs attention: counted for an overview, and the bypasses one by one."""

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.common import Page
from outrider.api.models.trouble import BypassAnswer, TroubleAnswer
from outrider.api.route import api_router
from outrider.kernel.transactions import trouble
from outrider.kernel.transactions.paging import LAST

router = api_router("alerts")


@router.get(
    "/trouble",
    operation_id="countTrouble",
    summary="Count doubts, alerts, dead letters and bypasses of the workspace",
)
async def count(outrider: Wired, asker: Asker) -> TroubleAnswer:
    most = outrider.limits.trouble_counted
    found = await outrider.store.read(trouble.trouble(asker.scope, most))
    return TroubleAnswer(**found._asdict(), most=most)


@router.get(
    "/bypasses",
    operation_id="listBypasses",
    summary="List phase state changes made without their lifecycle event, newest first",
)
async def list_bypasses(
    outrider: Wired, asker: Asker, limit: Limit = PAGE_DEFAULT, after: After = None
) -> Page[BypassAnswer]:
    before = cursors.id_after(after, LAST)
    found = await outrider.store.read(trouble.bypasses_page(asker.scope, before, limit))
    return Page(
        items=[BypassAnswer.of(bypass) for bypass in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )
