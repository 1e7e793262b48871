"""The target checker: every target of a registry is asked, in its own protocol, concurrently.

Nothing is sent. The gateways' own `check` knows what to ask; for a family without one, only the
connection is tested.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from outrider.domain.errors import InvalidInput
from outrider.domain.submission import Contract
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.reachability import reach
from outrider.limits.gateways import CHECK_OVERTIME_SECONDS, CHECK_SECONDS, CHECKS_AT_ONCE
from outrider.ports.gateway import GatewayDirectory
from outrider.ports.target_check import CheckableGateway, CheckFailure, CheckFinding, CheckStep

DEFAULT_PORTS = {"http": 80, "https": 443, "smtp": 25, "smtps": 465}

Findings = Mapping[str, list[CheckFinding]]
"""The finding for each submission target; None if it would accept a message."""


async def check_targets(
    gateways: GatewayDirectory,
    contracts: Iterable[Contract],
    *,
    allow_private: bool,
    seconds: float = CHECK_SECONDS,
    at_once: int = CHECKS_AT_ONCE,
) -> Findings:
    """`seconds` is per target; with more than `at_once` of them, some wait for others."""
    room = asyncio.Semaphore(at_once)

    async def checked(contract: Contract) -> list[CheckFinding]:
        async with room:
            return await _check(gateways, contract, allow_private=allow_private, seconds=seconds)

    given = list(contracts)
    found = await asyncio.gather(*map(checked, given))
    return {
        contract.submission_target: findings
        for contract, findings in zip(given, found, strict=True)
    }


async def _check(
    gateways: GatewayDirectory, contract: Contract, *, allow_private: bool, seconds: float
) -> list[CheckFinding]:
    """For the default workspace, and for those with their own set-up."""
    findings = list[CheckFinding]()
    others = gateways.own_workspaces(contract.submission_target)
    for workspace in others:
        found = await _check_for(
            gateways, contract, workspace, allow_private=allow_private, seconds=seconds
        )
        for each in found:
            message = f"for the workspace {workspace}: {each.message}"
            findings.append(replace(each, message=message))
    if others and _is_unusable(gateways, contract):
        # Nothing says that the default workspace uses it, too.
        return findings
    default = DEFAULT_WORKSPACE_NAME
    return findings + await _check_for(
        gateways, contract, default, allow_private=allow_private, seconds=seconds
    )


def _is_unusable(gateways: GatewayDirectory, contract: Contract) -> bool:
    try:
        gateways.gateway(contract.submission_target, contract.gateway_type, contract.gateway_url)
    except InvalidInput:
        return True
    return False


async def _check_for(
    gateways: GatewayDirectory,
    contract: Contract,
    workspace: WorkspaceName,
    *,
    allow_private: bool,
    seconds: float,
) -> list[CheckFinding]:
    name, url, findings = contract.submission_target, contract.gateway_url, list[CheckFinding]()
    finding: CheckFinding | None
    try:
        gateway = gateways.gateway(name, contract.gateway_type, url, workspace)
    except InvalidInput as error:
        # Without its set-up it cannot be asked, but other problems are still found.
        findings.append(CheckFailure(CheckStep.SETUP, error.message, error.hint or ""))
        finding = await _connect(url, allow_private=allow_private, seconds=seconds)
    else:
        if isinstance(gateway, CheckableGateway):
            finding = await _ask(gateway, seconds)
        else:
            finding = await _connect(url, allow_private=allow_private, seconds=seconds)
    if finding is not None:
        findings.append(finding)
    return findings


async def _ask(gateway: CheckableGateway, seconds: float) -> CheckFinding | None:
    try:
        # A check keeps its own time and says where it waited; this is for one that does not.
        async with asyncio.timeout(seconds + CHECK_OVERTIME_SECONDS):
            return await gateway.check(seconds)
    except TimeoutError:
        message = f"the check did not end within {seconds:g} seconds"
        return CheckFailure(CheckStep.REQUEST, message, "Check the target's provider yourself.")


async def _connect(gateway_url: str, *, allow_private: bool, seconds: float) -> CheckFailure | None:
    url = urlsplit(gateway_url)
    if url.hostname is None:
        return None
    port = url.port or DEFAULT_PORTS[url.scheme]
    return await reach(url.hostname, port, allow_private=allow_private, seconds=seconds)
