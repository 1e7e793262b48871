"""`outrider`: the root command, its flags, and the groups below it."""

from pathlib import Path
from typing import Annotated

import typer

from outrider import __version__
from outrider.cli import (
    alerts,
    bus,
    campaign_controls,
    database,
    demo,
    doubts,
    intent,
    key,
    registry,
    run_log,
    sandbox,
    serve,
    work,
)

app = typer.Typer(
    name="outrider",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help=(
        "Outrider sends campaigns through a durable ledger: kill any process at any moment and"
        " still prove, for every recipient, what happened.\n\n"
        "Try `outrider demo` first. Then: `outrider migrate`, `outrider campaign create FILE`,"
        " `outrider campaign start ID --work`."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outrider {__version__}")
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
            help="Contracts of the submission targets; default registry.json"
            " (or OUTRIDER_REGISTRY)",
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="OUTRIDER_SERVER",
            help="Ask this server instead of the database; its key comes from OUTRIDER_KEY.",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - the callback answers it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    context.obj = {"database_url": database_url, "registry": registry, "server": server}


app.command()(demo.demo)
app.command()(database.migrate)
app.command()(database.check)
app.add_typer(campaign_controls.app, name="campaign")
app.add_typer(run_log.app, name="run")
app.add_typer(doubts.app, name="doubts")
app.add_typer(bus.app, name="bus")
app.command()(alerts.alerts)
app.add_typer(intent.app, name="intent")
app.add_typer(key.app, name="key")
app.add_typer(registry.app, name="registry")
app.command()(serve.serve)
app.command()(work.work)
app.command()(sandbox.sandbox)


def main() -> None:
    app()
