"""`outrider registry`: check a registry before it is used, show the one in force."""

from pathlib import Path
from typing import Annotated, assert_never

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider, load_registry
from outrider.cli import texts
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
    no_args_is_help=True, help="Check a registry file, or show the registry in force."
)

File = Annotated[
    Path | None, typer.Argument(help="Registry file; defaults to the one in the settings.")
]


@app.command()
def check(context: typer.Context, file: File = None, as_json: Json = False) -> None:
    """Check a registry file and list every mistake in it. Exits with 1 if there are any.

    Also warns about targets or fallbacks in the settings that do not match it.
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
        texts.Registry.ONE_TARGET
        if len(contracts) == 1
        else texts.Registry.TARGETS.format(contracts=len(contracts))
    )
    out.print(f"[green]ok:[/green] {many}")
    for warning in warnings:
        err.print(
            texts.Registry.WARNING.format(
                path=escape(warning.path), message=escape(warning.message)
            )
        )


@app.command()
def show(context: typer.Context, as_json: Json = False) -> None:
    """Show the contracts in force for new submissions. Older items keep the contract they started
    with.
    """

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
        ["target", "type", "gateway", "mode", "policy", "limit"],
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
        texts.Registry.EMPTY,
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
            return texts.Registry.WITHIN_S.format(
                max_acceptance_seconds=contract["maxAcceptanceSeconds"]
            )
        case "max_attempts":
            return texts.Registry.ATTEMPTS.format(max_attempts=contract["maxAttempts"])
        case "one_shot":
            return texts.Registry.ONE_ATTEMPT
        case other:
            assert_never(other)
