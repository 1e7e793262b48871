"""The alert that cannot be written: what `GET /alerts` says while the database is away.

It is made from what this server's watcher has seen, for callers whose key was valid lately.
"""

from datetime import datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from outrider.api.models.bus import AlertAnswer
from outrider.api.models.common import Page
from outrider.domain.blocker_words import database_down
from outrider.domain.errors import StoreUnavailable
from outrider.kernel.transactions.alerts import runbook

UNWRITTEN_ID = "00000000-0000-0000-0000-000000000000"
SUBJECT = "database"


def outage_alert(since: datetime, now: datetime, public_url: str | None) -> AlertAnswer:
    blocker = database_down(since)
    return AlertAnswer(
        id=UNWRITTEN_ID,
        code=blocker.code.value,
        severity="P1",
        subject=SUBJECT,
        message=f"{blocker.message} Other alerts cannot be read meanwhile.",
        detail={"hint": blocker.hint},
        times=1,
        raised_at=since,
        last_seen_at=now,
        resolved_at=None,
        runbook=runbook(blocker.code.value, public_url),
    )


def answer_without_database(
    request: Request, error: Exception, since: datetime | None
) -> Response | None:
    """A page of this one alert, if alerts were asked for; None for any other request."""
    services = getattr(request.app.state, "services", None)
    if services is None or since is None or not isinstance(error, StoreUnavailable):
        return None
    if request.method != "GET" or not request.url.path.endswith("/alerts"):
        return None
    if not services.doorkeeper.knew(request):
        return None
    outrider = services.outrider
    alert = outage_alert(since, outrider.clock.now(), outrider.settings.public_url)
    page = Page(items=[alert], next=None).model_dump(mode="json", by_alias=True)
    return Response(msgspec.json.encode(page), media_type="application/json")
