"""`outrider registry`: check a registry before it is used, show the one in force."""

from pathlib import Path
from typing import Annotated, assert_never

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider, load_registry
from outrider.cli.console import Json, err, fail, out, print_json, print_rows
from outrider.cli.documents import Document
from outrider.cli.session import execute, refuse_server, settings_of
from outrider.documents.target_settings import setting_warnings
from outrider.domain.contracts import PolicyName, contract_document
from outrider.domain.errors import OutriderError
from outrider.domain.submission import Contract
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.settings import Settings

app = typer.Typer(
    no_args_is_help=True, help="Check a registry of contracts, show the one in force."
)

File = Annotated[
    Path | None, typer.Argument(help="A registry; default is the one that the settings name.")
]


@app.command()
def check(context: typer.Context, file: File = None, as_json: Json = False) -> None:
    """Every mistake in a registry with its path, exit 1; or how many targets it has.

    Warns where the settings name targets or fallbacks that do not fit it.
    """
    refuse_server(context, as_json=as_json)
    settings, contracts = _loaded(context, file, as_json=as_json)
    warnings = setting_warnings(contracts, settings.targets, GATEWAY_TYPES)
    if as_json:
        print_json(
            {
                "targets": sorted(contracts),
                "warnings": [{"path": each.path, "message": each.message} for each in warnings],
                "success": True,
            }
        )
        return
    many = (
        "one submission target" if len(contracts) == 1 else f"{len(contracts)} submission targets"
    )
    out.print(f"[green]ok:[/green] {many}")
    for warning in warnings:
        err.print(
            f"[yellow]warning:[/yellow] [bold]{escape(warning.path)}[/bold]"
            f" {escape(warning.message)}"
        )


@app.command()
def show(context: typer.Context, as_json: Json = False) -> None:
    """The contracts in force for what is submitted now. Older items keep the one they had."""

    async def here(outrider: Outrider) -> Document:
        contracts = outrider.registry.contracts
        return {"targets": [contract_document(contracts[name]) for name in sorted(contracts)]}

    # Without the schema: a registry can be shown before there is a database.
    registry = execute(
        context,
        here,
        as_json=as_json,
        schema=False,
        remote=lambda server: server.get("registry"),
    )
    if as_json:
        print_json(registry)
        return
    print_rows(
        ["target", "type", "gateway", "mode", "policy", "ends at"],
        [
            (
                target["submissionTarget"],
                target["gatewayType"],
                target["gatewayUrl"],
                target["mode"],
                _policy(target),
                ", ".join(["accepted", *target["terminalOutcomes"]]),
            )
            for target in registry["targets"]
        ],
        "the registry has no submission targets; examples/registry.json has some",
    )


def _loaded(
    context: typer.Context, file: Path | None, *, as_json: bool
) -> tuple[Settings, dict[str, Contract]]:
    try:
        settings = settings_of(context)
        return settings, load_registry(file or settings.registry).contracts
    except OutriderError as error:
        fail(error, as_json=as_json)


def _policy(contract: Document) -> str:
    name: PolicyName = contract["policy"]
    match name:
        case "deadline":
            return f"within {contract['maxAcceptanceSeconds']:g} s"
        case "max_attempts":
            return f"{contract['maxAttempts']} attempts"
        case "one_shot":
            return "one attempt"
        case other:
            assert_never(other)
