"""`outrider`: the root command, its flags, and the groups below it."""

from pathlib import Path
from typing import Annotated, ClassVar

import typer

from outrider import __version__
from outrider.cli import texts
from outrider.cli.lazy_group import LazyGroup


class Commands(LazyGroup):
    places: ClassVar = {
        "init": "outrider.cli.init:init",
        "demo": "outrider.cli.demo:demo",
        "migrate": "outrider.cli.database:migrate",
        "check": "outrider.cli.database:check",
        "verify": "outrider.cli.verify:verify",
        "retire": "outrider.cli.retire:retire",
        "recovery": "outrider.cli.recovery:app",
        "erase": "outrider.cli.erase:erase",
        "alerts": "outrider.cli.alerts:alerts",
        "serve": "outrider.cli.serve:serve",
        "work": "outrider.cli.work:work",
        "workers": "outrider.cli.workers:workers",
        "sandbox": "outrider.cli.sandbox:sandbox",
        "receive-mail": "outrider.cli.receive_mail:receive_mail",
        "campaign": "outrider.cli.campaign_rollouts:app",
        "run": "outrider.cli.run_evidence:app",
        "doubts": "outrider.cli.doubts:app",
        "bus": "outrider.cli.bus:app",
        "history": "outrider.cli.history:app",
        "intent": "outrider.cli.intent:app",
        "event": "outrider.cli.event:app",
        "key": "outrider.cli.key_signing:app",
        "registry": "outrider.cli.registry:app",
        "target": "outrider.cli.target:app",
        "workflow": "outrider.cli.workflow:app",
        "suppression": "outrider.cli.suppression:app",
        "receipts": "outrider.cli.receipts:app",
        "person": "outrider.cli.person:person",
        "search": "outrider.cli.person:search",
    }


app = typer.Typer(
    name="outrider",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help=(
        "Outrider sends messages through a durable ledger: kill any process at any time, "
        "and you can still prove what happened for every recipient.\n\nTry `outrider demo` "
        "first. Then `outrider init` writes a folder to start in, and its GETTING-STARTED.md "
        "explains the next commands."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(texts.App.VERSION.format(version=__version__))
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="sqlite:///FILE or postgresql://…; default sqlite:///outrider.db"
            " (or OUTRIDER_DATABASE_URL)",
        ),
    ] = None,
    registry: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Registry file with the submission targets; default registry.json (or "
                "OUTRIDER_REGISTRY)"
            ),
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="OUTRIDER_SERVER",
            help=(
                "Use this server instead of the database; the API key is read from OUTRIDER_KEY."
            ),
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - the callback answers it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    context.obj = {"database_url": database_url, "registry": registry, "server": server}


def main() -> None:
    app()
