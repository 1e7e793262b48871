"""`outrider key`: make, list and revoke the keys with which programs use the API."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.session import actor, execute
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.keys import KeyId, KeyScope
from outrider.domain.times import rfc3339
from outrider.kernel.transactions.inspection import FIRST
from outrider.kernel.transactions.keys import ApiKeyRecord, in_order

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")

Workspace = Annotated[
    str | None,
    typer.Option(metavar="TENANT/PROJECT/ENVIRONMENT", help="Default is the default workspace."),
]


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Whose key it is; the audit log says key:NAME.")],
    scopes: Annotated[
        list[KeyScope] | None,
        typer.Option("--scope", help="What it may do, again for each; default read and operate."),
    ] = None,
    workspace: Workspace = None,
    as_json: Json = False,
) -> None:
    """Make a key and show it, this once. A workspace that does not exist is made with it."""

    async def work(outrider: Outrider) -> tuple[ApiKeyRecord, str]:
        scope = DEFAULT_SCOPE
        if workspace is not None:
            scope = await outrider.key_keeper.open_workspace(*_parts(workspace))
        wanted = scopes or [KeyScope.READ, KeyScope.OPERATE]
        return await outrider.key_keeper.create(scope, name, wanted, actor())

    record, text = execute(context, work, as_json=as_json)
    if as_json:
        print_json({**_document(record), "key": text, "success": True})
        return
    out.print(f"[green]created[/green] {record.id} {escape(record.name)}: {_scopes(record)}")
    out.print(text)
    out.print("keep it now: it is not shown again", style="dim")


@app.command(name="list")
def list_keys(
    context: typer.Context,
    after: Annotated[str, typer.Option(help="Go on after this id.", metavar="ID")] = FIRST,
    workspace: Workspace = None,
    as_json: Json = False,
) -> None:
    """The workspace's keys, oldest first, also those that were revoked."""

    async def work(outrider: Outrider) -> tuple[list[ApiKeyRecord], bool]:
        most = outrider.limits.page_items
        scope = await _found(outrider, workspace)
        page = await outrider.key_keeper.list(scope, after, most + 1)
        return list(page[:most]), len(page) > most

    records, more = execute(context, work, as_json=as_json)
    if as_json:
        print_json(
            {
                "items": [_document(record) for record in records],
                "next": records[-1].id if more else None,
            }
        )
        return
    print_rows(
        ["id", "name", "scopes", "created", "revoked"],
        [
            (record.id, record.name, _scopes(record), rfc3339(record.created_at),
             rfc3339(record.revoked_at) if record.revoked_at else "")
            for record in records
        ],
        "no keys; `outrider key create NAME` makes one",
    )  # fmt: skip
    if more:
        out.print(f"next: outrider key list --after {records[-1].id}", style="dim")


@app.command()
def revoke(
    context: typer.Context,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `outrider key list` shows it.")],
    workspace: Workspace = None,
    as_json: Json = False,
) -> None:
    """Have a key refused from now on. Servers that have just seen it take a few seconds."""

    async def work(outrider: Outrider) -> ApiKeyRecord:
        scope = await _found(outrider, workspace)
        return await outrider.key_keeper.revoke(scope, KeyId(key_id), actor())

    record = execute(context, work, as_json=as_json)
    if as_json:
        print_json({**_document(record), "success": True})
        return
    out.print(f"[green]revoked[/green] {record.id} {escape(record.name)}")


async def _found(outrider: Outrider, workspace: str | None) -> Scope:
    if workspace is None:
        return DEFAULT_SCOPE
    return await outrider.key_keeper.find_workspace(*_parts(workspace))


def _parts(workspace: str) -> tuple[str, str, str]:
    parts = workspace.split("/")
    if len(parts) != 3:
        raise InvalidInput(
            f"'{workspace}' names no workspace", hint="write TENANT/PROJECT/ENVIRONMENT"
        )
    tenant, project, environment = parts
    return tenant, project, environment


def _scopes(record: ApiKeyRecord) -> str:
    return ", ".join(in_order(record.scopes))


def _document(record: ApiKeyRecord) -> dict[str, object]:
    return {
        "id": record.id,
        "name": record.name,
        "scopes": in_order(record.scopes),
        "createdAt": rfc3339(record.created_at),
        "revokedAt": rfc3339(record.revoked_at) if record.revoked_at else None,
    }
