"""`outrider key`: create, list and revoke the keys with which programs use the API."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.api import cursors
from outrider.api.models.admin import KeyAnswer, NewKey, RevokedKey
from outrider.api.models.common import Page
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.session import actor, execute
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.keys import KeyId, KeyScope
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.api import ApiLimits

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")

Workspace = Annotated[
    str | None,
    typer.Option(metavar="TENANT/PROJECT/ENVIRONMENT", help="Defaults to the default workspace."),
]


@app.command()
def create(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="A name for the key; the audit log shows it as key:NAME.")
    ],
    scopes: Annotated[
        list[KeyScope] | None,
        typer.Option(
            "--scope",
            help="A scope of the key; repeat the option for several. Default: read and operate.",
        ),
    ] = None,
    workspace: Workspace = None,
    as_json: Json = False,
) -> None:
    """Create an API key and print it; it cannot be shown again. Creates the workspace if needed."""

    wanted = scopes or [KeyScope.READ, KeyScope.OPERATE]

    async def here(outrider: Outrider) -> Document:
        scope = DEFAULT_SCOPE
        if workspace is not None:
            scope = await outrider.key_keeper.open_workspace(*_parts(workspace))
        made, text = await outrider.key_keeper.create(scope, name, wanted, actor())
        return document_of(NewKey(**KeyAnswer.of(made).model_dump(), key=text))

    async def remote(server: Remote) -> Document:
        _only_its_own(workspace)
        return await server.post("keys", json={"name": name, "scopes": wanted})

    made = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(made)
        return
    out.print(
        texts.Key.CREATED.format(id=made["id"], name=escape(made["name"]), scopes=_scopes(made))
    )
    out.print(made["key"])
    out.print(texts.Key.SHOWN_ONCE, style="dim")


@app.command(name="list")
def list_keys(
    context: typer.Context,
    after: After = None,
    workspace: Workspace = None,
    as_json: Json = False,
) -> None:
    """List the workspace's keys, oldest first, including revoked ones."""

    async def here(outrider: Outrider) -> Document:
        most = outrider.limits.page_items
        scope = await _found(outrider, workspace)
        keys = await outrider.key_keeper.list(scope, cursors.id_after(after, FIRST), most + 1)
        page = Page(
            items=[KeyAnswer.of(key) for key in keys[:most]],
            next=cursors.encode(keys[most - 1].id) if len(keys) > most else None,
        )
        return document_of(page)

    async def remote(server: Remote) -> Document:
        _only_its_own(workspace)
        return await server.get("keys", after=after, limit=ApiLimits.page_max)

    page = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(page)
        return
    print_rows(
        ["id", "name", "scopes", "created", "revoked"],
        [
            (key["id"], key["name"], _scopes(key), key["createdAt"], key["revokedAt"])
            for key in page["items"]
        ],
        texts.Key.NONE,
    )
    if page["next"]:
        out.print(texts.Key.NEXT_PAGE.format(next=page["next"]), style="dim")


@app.command()
def revoke(
    context: typer.Context,
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="Key ID, as listed by `outrider key list`.")
    ],
    workspace: Workspace = None,
    as_json: Json = False,
) -> None:
    """Revoke a key. Running servers may accept it for a few more seconds."""

    async def here(outrider: Outrider) -> Document:
        scope = await _found(outrider, workspace)
        revoked = await outrider.key_keeper.revoke(scope, KeyId(key_id), actor())
        return document_of(RevokedKey(**KeyAnswer.of(revoked).model_dump()))

    async def remote(server: Remote) -> Document:
        _only_its_own(workspace)
        return await server.delete("keys", key_id)

    revoked = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(revoked)
        return
    out.print(texts.Key.REVOKED.format(id=revoked["id"], name=escape(revoked["name"])))


@app.command(name="callback-secret")
def callback_secret(
    context: typer.Context, workspace: Workspace = None, as_json: Json = False
) -> None:
    """Show the secret that signs the workspace's callbacks; created on first use."""

    async def here(outrider: Outrider) -> Document:
        scope = await _found(outrider, workspace)
        return {"secret": await outrider.callback_secrets.text_of(scope)}

    async def remote(server: Remote) -> Document:
        _only_its_own(workspace)
        return await server.get("callbacks", "secret")

    found = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(found)
        return
    out.print(found["secret"])


async def _found(outrider: Outrider, workspace: str | None) -> Scope:
    if workspace is None:
        return DEFAULT_SCOPE
    return await outrider.key_keeper.find_workspace(*_parts(workspace))


def _parts(workspace: str) -> tuple[str, str, str]:
    parts = workspace.split("/")
    if len(parts) != 3:
        raise InvalidInput(
            texts.Key.NOT_A_WORKSPACE.format(workspace=workspace),
            hint=texts.Key.NOT_A_WORKSPACE_HINT,
        )
    tenant, project, environment = parts
    return tenant, project, environment


def _only_its_own(workspace: str | None) -> None:
    if workspace is not None:
        raise InvalidInput(
            texts.Key.WORKSPACE_IS_LOCAL,
            hint=texts.Key.WORKSPACE_IS_LOCAL_HINT,
        )


def _scopes(key: Document) -> str:
    return ", ".join(key["scopes"])
