"""`outrider registry`: check a registry before it is used, show the one in force."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, assert_never

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider, load_registry
from outrider.cli.console import Json, err, fail, out, print_json, print_rows
from outrider.cli.session import execute, settings_of
from outrider.documents.target_settings import setting_warnings
from outrider.domain.contracts import contract_document
from outrider.domain.errors import OutriderError
from outrider.domain.submission import Contract, Deadline, MaxAttempts, OneShot, Policy
from outrider.domain.targets import TargetState
from outrider.domain.times import rfc3339
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.transactions import targets
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
    _, contracts = _loaded(context, None, as_json=as_json)
    in_order = [contracts[name] for name in sorted(contracts)]
    if as_json:
        print_json({"targets": [contract_document(contract) for contract in in_order]})
        return
    print_rows(
        ["target", "type", "gateway", "mode", "policy", "ends at"],
        [
            (
                contract.submission_target,
                contract.gateway_type,
                contract.gateway_url,
                contract.mode,
                _policy(contract.policy),
                ", ".join(["accepted", *sorted(contract.terminal_outcomes)]),
            )
            for contract in in_order
        ],
        "the registry has no submission targets; examples/registry.json has some",
    )


@app.command()
def state(context: typer.Context, as_json: Json = False) -> None:
    """How each target fares: its breaker, its failures in a row, until when it is left alone."""

    async def work(outrider: Outrider) -> dict[str, TargetState]:
        return await outrider.store.read(targets.all_states(outrider.limits.page_items))

    states = execute(context, work, as_json=as_json)
    if as_json:
        items = [
            {
                "submissionTarget": name,
                "breaker": each.breaker.value,
                "failures": each.failures,
                "resumeAt": rfc3339(each.resume_at) if each.resume_at else None,
                "probeAt": rfc3339(each.probe_at) if each.probe_at else None,
            }
            for name, each in states.items()
        ]
        print_json({"items": items, "next": None})
        return
    print_rows(
        ["target", "breaker", "failures in a row", "left alone until", "next probe"],
        [
            (name, each.breaker.value, each.failures, _moment(each.resume_at),
             _moment(each.probe_at))
            for name, each in states.items()
        ],
        "no target has a rate or was ever in trouble",
    )  # fmt: skip


def _moment(at: datetime | None) -> str:
    return rfc3339(at) if at else ""


def _loaded(
    context: typer.Context, file: Path | None, *, as_json: bool
) -> tuple[Settings, dict[str, Contract]]:
    try:
        settings = settings_of(context)
        return settings, load_registry(file or settings.registry).contracts
    except OutriderError as error:
        fail(error, as_json=as_json)


def _policy(policy: Policy) -> str:
    match policy:
        case Deadline(seconds):
            return f"within {seconds:g} s"
        case MaxAttempts(attempts):
            return f"{attempts} attempts"
        case OneShot():
            return "one attempt"
        case other:
            assert_never(other)
