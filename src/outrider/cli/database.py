"""`outrider migrate` and `outrider check`: the schema, and whether everything fits together."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

import typer
import uvloop
from rich.markup import escape

from outrider.bootstrap import Outrider, load_registry, make_gateways, open_outrider
from outrider.cli import texts
from outrider.cli.console import Json, err, fail, out, print_json, shown
from outrider.cli.session import execute, refuse_server, settings_of
from outrider.domain.errors import InvalidInput, OutriderError, Problem
from outrider.domain.sink_urls import SinkKind, sink_url
from outrider.domain.states import Channel
from outrider.domain.submission import Contract
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.gateways.reachability import reach
from outrider.gateways.target_checker import Findings, check_targets
from outrider.kernel.workflows.step_targets import StepTargets
from outrider.kernel.workflows.workflow_checker import WorkflowFindings
from outrider.limits.bus import SINK_REACH_SECONDS
from outrider.ports.target_check import CheckFailure, CheckStep, CheckWarning
from outrider.secrets.store import LocalSecrets
from outrider.settings import Settings, SinkSettings
from outrider.system import SystemClock

PLACES = {
    CheckStep.SETUP: "targets",
    CheckStep.CONNECT: "registry",
    CheckStep.TLS: "registry",
    CheckStep.GREETING: "registry",
    CheckStep.CREDENTIAL: "targets",
    CheckStep.SENDER: "targets",
    CheckStep.REQUEST: "registry",
}
"""Where a step's finding is fixed: in the registry, or in the settings of targets."""


def migrate(context: typer.Context, as_json: Json = False) -> None:
    """Update the database schema, and the definitions on the engine's server if it has any.

    Safe to repeat, and to run from several machines at once.
    """

    async def work(outrider: Outrider) -> tuple[list[str], list[str]]:
        applied = list(await outrider.store.migrate())
        return applied, await outrider.register_with_engine()

    applied, registered = execute(context, work, as_json=as_json, schema=False)
    if as_json:
        print_json({"applied": applied, "registered": registered, "success": True})
        return
    if applied:
        out.print(texts.Database.MIGRATED.format(applied=", ".join(applied)))
    else:
        out.print(texts.Database.UP_TO_DATE)
    if registered:
        out.print(texts.Database.REGISTERED.format(names=", ".join(registered)))


def check(context: typer.Context, as_json: Json = False) -> None:
    """Check settings, registry, database, engine and every submission target.

    For each target it checks what a first message would need, such as TLS, credentials and the
    sender. Nothing is sent, and all problems are listed at once.
    """
    refuse_server(context, as_json=as_json)
    try:
        settings = settings_of(context)
    except OutriderError as error:
        fail(error, as_json=as_json)
    checked = uvloop.run(_check(settings))
    if not as_json:
        _print_targets(checked.findings)
    documents = {"checks": _check_documents(checked.findings)}
    if checked.problems:
        next_step = texts.Database.FIX_HINT
        found = InvalidInput(_count(checked.problems), checked.problems, hint=next_step)
        fail(found, as_json=as_json, more=documents)
    targets, hints = sorted(checked.contracts), _hints(settings, checked.contracts.values())
    hints += [f"{each.path}: {each.message}" for each in checked.warnings]
    if as_json:
        print_json({"targets": targets, "hints": hints, **documents, "success": True})
        return
    out.print(texts.Database.ALL_OK.format(targets=len(targets)))
    for hint in hints:
        err.print(texts.Database.HINT.format(hint=escape(hint)))


def _print_targets(findings: Findings) -> None:
    """A line for each target; a problem is repeated in the list of all problems."""
    width = max(map(len, findings), default=0)
    for target, found in sorted(findings.items()):
        name = shown(target.ljust(width))
        if not found:
            out.print(f"{name}  [green]ok[/green]")
        for finding in found:
            match finding:
                case CheckFailure():
                    out.print(texts.Database.FAILED_AT.format(name=name, step=finding.step.value))
                case CheckWarning():
                    text = shown(f"{finding.message}. {finding.hint}")
                    out.print(
                        texts.Database.WARNING_AT.format(
                            name=name, step=finding.step.value, text=text
                        )
                    )
                case _:
                    assert_never(finding)


def _check_documents(findings: Findings) -> list[dict[str, object]]:
    return [
        {
            "submissionTarget": target,
            "ok": not any(isinstance(finding, CheckFailure) for finding in found),
            "findings": [
                {
                    "kind": "failure" if isinstance(finding, CheckFailure) else "warning",
                    "step": finding.step.value,
                    "message": finding.message,
                    "hint": finding.hint,
                }
                for finding in found
            ],
        }
        for target, found in sorted(findings.items())
    ]


def _count(problems: list[Problem]) -> str:
    return (
        texts.Database.ONE_PROBLEM
        if len(problems) == 1
        else texts.Database.PROBLEMS.format(problems=len(problems))
    )


def _hints(settings: Settings, contracts: Iterable[Contract]) -> list[str]:
    """What works, but could be better."""
    if settings.public_url is not None:
        return []
    letters = sorted(
        contract.submission_target
        for contract in contracts
        if GATEWAY_TYPES[contract.gateway_type].channel is Channel.EMAIL
        and not _unsubscribes(settings, contract.submission_target)
    )
    if not letters:
        return []
    return [texts.Database.NO_UNSUBSCRIBE_LINK.format(targets=", ".join(letters))]


def _unsubscribes(settings: Settings, submission_target: str) -> bool:
    target = settings.targets.get(submission_target)
    return target is not None and "listUnsubscribe" in target.options


@dataclass(frozen=True, slots=True)
class Checked:
    problems: list[Problem]
    contracts: Mapping[str, Contract]
    findings: Findings
    warnings: list[Problem]


async def _check(settings: Settings) -> Checked:
    database = await _caught("database", _check_database(settings))
    problems = [*database]
    contracts: dict[str, Contract] = {}
    try:
        contracts = load_registry(settings.registry).contracts
    except InvalidInput as error:
        problems += error.problems or [Problem("registry", _sentence(error))]
    findings = await _check_targets(settings, contracts.values())
    problems += _target_problems(findings)
    problems += _check_workflow_targets(settings, contracts)
    workflows = WorkflowFindings([], [])
    if contracts and not database:
        workflows = await _check_workflows(settings, contracts)
        problems += workflows.problems
    problems += await _check_sinks(settings)
    problems += await _caught("history", _check_history(settings))
    problems += await _caught("engine", _check_engine(settings))
    return Checked(problems, contracts, findings, workflows.warnings)


async def _check_database(settings: Settings) -> None:
    async with open_outrider(settings) as outrider:
        await outrider.store.verify_schema()


async def _check_engine(settings: Settings) -> None:
    """Its library, its secrets and files, and whether its server answers."""
    async with open_outrider(settings) as outrider:
        await outrider.reach_engine()


async def _check_history(settings: Settings) -> None:
    """Its library, its secrets, and whether it answers."""
    if settings.history is not None:
        async with open_outrider(settings) as outrider:
            await outrider.history.reach()


async def _caught(path: str, checked: Awaitable[None]) -> list[Problem]:
    try:
        await checked
    except OutriderError as error:
        return [Problem(path, _sentence(error))]
    return []


def _sentence(error: OutriderError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


async def _check_targets(settings: Settings, contracts: Iterable[Contract]) -> Findings:
    gateways = make_gateways(settings)
    try:
        allow_private = settings.allow_private_gateways
        return await check_targets(gateways, contracts, allow_private=allow_private)
    finally:
        await gateways.close()


def _target_problems(findings: Findings) -> list[Problem]:
    return [
        Problem(f"{PLACES[finding.step]}: {target}", _problem_text(finding))
        for target, found in findings.items()
        for finding in found
        if isinstance(finding, CheckFailure)
    ]


def _problem_text(finding: CheckFailure) -> str:
    if finding.step is CheckStep.SETUP:
        return f"{finding.message} ({finding.hint})" if finding.hint else finding.message
    return f"{finding.message}. {finding.hint}"


def _check_workflow_targets(settings: Settings, contracts: Mapping[str, Contract]) -> list[Problem]:
    """What a step without a target would otherwise only fail on when its event is routed."""
    targets = StepTargets(lambda: contracts, GATEWAY_TYPES, settings.workflow_targets)
    found = {channel: targets.find(channel, None) for channel in settings.workflow_targets}
    return [
        Problem(f"workflow_targets: {channel.value}", problem)
        for channel, problem in found.items()
        if isinstance(problem, str)
    ]


async def _check_workflows(
    settings: Settings, contracts: Mapping[str, Contract]
) -> WorkflowFindings:
    """What rules and legacy senders would otherwise only fail on when an event comes."""
    async with open_outrider(settings) as outrider:
        try:
            return await outrider.workflow_checker.check(contracts)
        except OutriderError as error:
            return WorkflowFindings([Problem("workflows", _sentence(error))], [])


async def _check_sinks(settings: Settings) -> list[Problem]:
    """Missing libraries and secrets of a relay, and sinks that do not answer."""
    found = await asyncio.gather(
        *(_check_sink(name, each, settings) for name, each in settings.bus.items())
    )
    return [problem for problem in found if problem is not None]


async def _check_sink(name: str, given: SinkSettings, settings: Settings) -> Problem | None:
    private = settings.allow_private_gateways
    path, url = f"bus: {name}", sink_url(given.url)
    from outrider.sinks.directory import make_sink

    try:
        sink = make_sink(name, given, LocalSecrets(), SystemClock(), allow_private=private)
    except InvalidInput as error:
        return Problem(path, _sentence(error))
    await sink.close()
    if url.host is None:
        return None
    # The guard is for webhooks: the other kinds are the operator's own servers.
    guarded = url.kind is SinkKind.WEBHOOK and not private
    failure = await reach(url.host, url.port, allow_private=not guarded, seconds=SINK_REACH_SECONDS)
    return None if failure is None else Problem(path, failure.message)
