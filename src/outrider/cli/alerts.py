"""`outrider alerts`: what needs attention."""

from typing import Annotated

import typer

from outrider.api import cursors
from outrider.api.models.bus import AlertAnswer
from outrider.api.models.common import Page
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, Most, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions.alerts import LAST, alerts_page


def alerts(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Include resolved alerts.")] = False,
    limit: Most = 100,
    after: After = None,
    as_json: Json = False,
) -> None:
    """Open alerts, newest first."""

    async def here(outrider: Outrider) -> Document:
        before = cursors.id_after(after, LAST)
        found = await outrider.store.read(
            alerts_page(DEFAULT_SCOPE, before, limit, only_open=not everything)
        )
        page = Page(
            items=[AlertAnswer.of(alert, outrider.settings.public_url) for alert in found],
            next=cursors.encode(found[-1].id) if len(found) == limit else None,
        )
        return document_of(page)

    standing = None if everything else "true"
    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get("alerts", standing=standing, limit=limit, after=after),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["code", "severity", "subject", "times", "last seen", "resolved", "message"],
        [
            (each["code"], each["severity"], each["subject"], each["times"],
             each["lastSeenAt"][:19].replace("T", " "), each["resolvedAt"], each["message"])
            for each in page["items"]
        ],
        texts.Alerts.NONE,
    )  # fmt: skip
    if page["next"]:
        out.print(texts.Alerts.NEXT_PAGE.format(next=page["next"]), style="dim")
