"""`outrider key signing`: the keys that sign evidence."""

from typing import Annotated

import typer

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.documents import Document
from outrider.cli.key import app as keys
from outrider.cli.session import execute
from outrider.domain.errors import NotFound
from outrider.domain.times import rfc3339
from outrider.kernel.transactions import seals
from outrider.kernel.transactions.seals import RegisteredKey

app = keys

signing = typer.Typer(no_args_is_help=True, help="Keys that sign evidence: create, list, export.")
app.add_typer(signing, name="signing")


@signing.command()
def create(context: typer.Context, as_json: Json = False) -> None:
    """Create the key of this machine, or replace it; what it signed before stays valid."""

    async def here(outrider: Outrider) -> Document:
        outrider.evidence_key.create()
        return await _registered(outrider)

    made = execute(context, here, as_json=as_json)
    if as_json:
        print_json(made)
    else:
        out.print(texts.KeySigning.CREATED.format(id=made["id"]))
        out.print(made["publicKey"])


@signing.command(name="list")
def list_keys(context: typer.Context, as_json: Json = False) -> None:
    """List the keys that signed evidence from this database."""

    async def here(outrider: Outrider) -> list[Document]:
        return [_document(key) for key in await outrider.store.read(seals.keys())]

    found = execute(context, here, as_json=as_json)
    if as_json:
        print_json({"items": found, "next": None})
        return
    print_rows(
        ["id", "public key", "created"],
        [(key["id"], key["publicKey"], key["createdAt"]) for key in found],
        texts.KeySigning.NONE,
    )


@signing.command()
def export(
    context: typer.Context,
    key_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Defaults to the key of this machine.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a public key, for `outrider verify FILE --public-key KEY`."""

    async def here(outrider: Outrider) -> Document:
        if key_id is None:
            return await _registered(outrider)
        for key in await outrider.store.read(seals.keys()):
            if key.id == key_id:
                return _document(key)
        raise NotFound(texts.KeySigning.UNKNOWN.format(id=key_id))

    found = execute(context, here, as_json=as_json)
    if as_json:
        print_json(found)
    else:
        out.print(found["publicKey"])


async def _registered(outrider: Outrider) -> Document:
    key, now = outrider.evidence_key, outrider.clock.now()
    await outrider.store.write(seals.register_key(key.key_id, key.public_key, now))
    return _document(RegisteredKey(key.key_id, key.public_key, now))


def _document(key: RegisteredKey) -> Document:
    return {
        "id": key.id,
        "publicKey": bytes(key.public_key).hex(),
        "createdAt": rfc3339(key.created_at),
    }
