"""`outrider migrate` and `outrider check`: the schema, and whether everything fits together."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from urllib.parse import urlsplit

import typer
import uvloop
from rich.markup import escape

from outrider.bootstrap import Outrider, load_registry, make_gateways, open_outrider
from outrider.cli.console import Json, err, fail, out, print_json
from outrider.cli.session import execute, refuse_server, settings_of
from outrider.domain.errors import InvalidInput, OutriderError, Problem
from outrider.domain.sink_urls import SinkKind, sink_url
from outrider.domain.states import Channel
from outrider.domain.submission import Contract
from outrider.gateways.address_guard import connect
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.step_targets import StepTargets
from outrider.secret_store import LocalSecrets
from outrider.settings import Settings, SinkSettings
from outrider.system import SystemClock

CONNECT_SECONDS = 3.0
DEFAULT_PORTS = {"http": 80, "https": 443, "smtp": 25, "smtps": 465}


def migrate(context: typer.Context, as_json: Json = False) -> None:
    """Bring the database's schema up to date. Safe to run again, and from several machines."""

    async def work(outrider: Outrider) -> list[str]:
        return list(await outrider.store.migrate())

    applied = execute(context, work, as_json=as_json, schema=False)
    if as_json:
        print_json({"applied": applied, "success": True})
    elif applied:
        out.print(f"[green]migrated:[/green] {', '.join(applied)}")
    else:
        out.print("the schema is up to date")


def check(context: typer.Context, as_json: Json = False) -> None:
    """Check settings, registry, database, engine and the way to each gateway; every problem at
    once."""
    refuse_server(context, as_json=as_json)
    try:
        settings = settings_of(context)
    except OutriderError as error:
        fail(error, as_json=as_json)
    problems, contracts = uvloop.run(_problems(settings))
    if problems:
        fail(
            InvalidInput(_count(problems), problems, hint="mend them and check again"),
            as_json=as_json,
        )
    targets, hints = sorted(contracts), _hints(settings, contracts.values())
    if as_json:
        print_json({"targets": targets, "hints": hints, "success": True})
        return
    out.print(f"[green]ok:[/green] settings, database, and {len(targets)} submission targets")
    for target in targets:
        out.print(f"  {target}", style="dim")
    for hint in hints:
        err.print(f"[yellow]hint:[/yellow] {escape(hint)}")


def _count(problems: list[Problem]) -> str:
    return "one problem" if len(problems) == 1 else f"{len(problems)} problems"


def _hints(settings: Settings, contracts: Iterable[Contract]) -> list[str]:
    """What works as it is, and could be better."""
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
    return [
        f"e-mails of {', '.join(letters)} cannot be unsubscribed from with one click:"
        " set OUTRIDER_PUBLIC_URL to where recipients reach this server"
    ]


def _unsubscribes(settings: Settings, submission_target: str) -> bool:
    target = settings.targets.get(submission_target)
    return target is not None and "listUnsubscribe" in target.options


async def _problems(settings: Settings) -> tuple[list[Problem], dict[str, Contract]]:
    problems = await _caught("database", _check_database(settings))
    contracts: dict[str, Contract] = {}
    try:
        contracts = load_registry(settings.registry).contracts
    except InvalidInput as error:
        problems += error.problems or [Problem("registry", _sentence(error))]
    problems += _check_gateways(settings, contracts.values())
    problems += _check_workflow_targets(settings, contracts)
    private = settings.allow_private_gateways
    reached = await asyncio.gather(
        *(_check_route(contract, allow_private=private) for contract in contracts.values())
    )
    problems += [problem for problem in reached if problem is not None]
    problems += await _check_sinks(settings)
    problems += await _caught("engine", _check_engine(settings))
    return problems, contracts


async def _check_database(settings: Settings) -> None:
    async with open_outrider(settings) as outrider:
        await outrider.store.verify_schema()


async def _check_engine(settings: Settings) -> None:
    """Its library, its secrets and files, and whether its server answers."""
    async with open_outrider(settings) as outrider:
        await outrider.reach_engine()


async def _caught(path: str, checked: Awaitable[None]) -> list[Problem]:
    try:
        await checked
    except OutriderError as error:
        return [Problem(path, _sentence(error))]
    return []


def _sentence(error: OutriderError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _check_gateways(settings: Settings, contracts: Iterable[Contract]) -> list[Problem]:
    """Options and credentials that a worker would only miss when the first item is due."""
    gateways, problems = make_gateways(settings), []
    for contract in contracts:
        try:
            gateways.gateway(
                contract.submission_target, contract.gateway_type, contract.gateway_url
            )
        except InvalidInput as error:
            problems.append(Problem(f"targets: {contract.submission_target}", _sentence(error)))
    return problems


def _check_workflow_targets(settings: Settings, contracts: Mapping[str, Contract]) -> list[Problem]:
    """What a step that names no target would only miss when its event is routed."""
    targets = StepTargets(lambda: contracts, GATEWAY_TYPES, settings.workflow_targets)
    found = {channel: targets.find(channel, None) for channel in settings.workflow_targets}
    return [
        Problem(f"workflow_targets: {channel.value}", problem)
        for channel, problem in found.items()
        if isinstance(problem, str)
    ]


async def _check_sinks(settings: Settings) -> list[Problem]:
    """Libraries and secrets that a relay would miss, and sinks that nothing answers for."""
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
    # The guard is for webhooks: the other kinds are servers of one's own.
    guarded = url.kind is SinkKind.WEBHOOK and not private
    return await _reach(path, url.host, url.port, allow_private=not guarded)


async def _check_route(contract: Contract, *, allow_private: bool) -> Problem | None:
    """Does something listen where the gateway should be? Nothing is sent."""
    parts = urlsplit(contract.gateway_url)
    if parts.hostname is None:
        return None
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    path = f"registry: {contract.submission_target}"
    return await _reach(path, parts.hostname, port, allow_private=allow_private)


async def _reach(path: str, host: str, port: int, *, allow_private: bool) -> Problem | None:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            line = await connect(host, port, allow_private=allow_private)
        line.close()
    except (OSError, TimeoutError) as error:
        why = str(error) or "no answer"
        return Problem(path, f"nothing can be reached at {host}:{port} ({why})")
    return None
