"""Routes: through which target's gateway an item's next attempt goes.

A fallback is duplicate-safe by one rule: it is used only if every earlier attempt is proven not to
have been accepted. After a silence only the provider that was silent may be asked again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import structlog

from outrider.domain.call_results import CallResult, Closes, Held, Throttled
from outrider.domain.errors import OutriderError
from outrider.domain.ids import Scope
from outrider.domain.retry import CALL_REPEATS_MAX
from outrider.domain.submission import Contract
from outrider.domain.workspaces import WorkspaceName
from outrider.kernel.access.workspace_names import WorkspaceNames
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.transactions.reserving import RepeatWord
from outrider.ports.gateway import Gateway, GatewayDirectory

log = structlog.get_logger()

Element = TypeVar("Element")

GoesAround = Callable[[Scope, Contract, Contract], bool]
"""Whether what was never attempted goes to the fallback, the second contract, for now."""


@dataclass(frozen=True, slots=True)
class Route:
    """A gateway and its contract; the contract is None if it is the item's own."""

    submission_target: str
    gateway_url: str
    gateway: Gateway
    contract_id: int | None = None
    is_scoped: bool = False
    shares_reports: bool = False
    """Whoever is written to there is kept by address: a reply may name no message."""

    def as_the_door_sees(self, result: CallResult) -> CallResult:
        """A problem with a workspace's own credentials must not close the door for the others."""
        if not self.is_scoped or not isinstance(result, Held | Throttled):
            return result
        if result.closes is not Closes.THE_DOOR:
            return result
        return replace(result, closes=Closes.THE_WORKSPACE)

    @property
    def word(self) -> RepeatWord:
        return RepeatWord(self.submission_target, str(self.gateway.memory))


class AttemptHistory(NamedTuple):
    """The ledger's record of an item's earlier calls, whether they counted as attempts or not."""

    calls: int
    last_contract_id: int | None
    maybe_received: bool
    submitted_at: datetime
    is_worn_out: bool = False
    """Its call was abandoned as often as one attempt may be: it must not kill another worker."""


class Attempted(Protocol):
    """A ledger row that may be called again."""

    @property
    def attempts(self) -> int: ...
    @property
    def attempt_contract_id(self) -> int | None: ...
    @property
    def maybe_received(self) -> bool: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def uncounted_calls(self) -> int: ...
    @property
    def repeats(self) -> int: ...


def history_of(row: Attempted) -> AttemptHistory:
    """An attempt that was left open counts as a silence."""
    silent = bool(row.is_open or row.maybe_received)
    calls = row.attempts + row.uncounted_calls
    worn_out = bool(row.is_open) and row.repeats >= CALL_REPEATS_MAX
    return AttemptHistory(calls, row.attempt_contract_id, silent, row.created_at, worn_out)


class GatewayRoutes:
    """All routes, for every workspace."""

    def __init__(
        self,
        gateways: GatewayDirectory,
        contract_cache: ContractCache,
        names: WorkspaceNames,
        goes_around: GoesAround = lambda *_: False,
    ) -> None:
        self._gateways = gateways
        self._contract_cache = contract_cache
        self._names = names
        self._goes_around = goes_around

    async def of(self, scope: Scope) -> "WorkspaceRoutes":
        routes = self.of_workspace(await self._names.of(scope))
        routes.goes_around = partial(self._goes_around, scope)
        return routes

    def of_workspace(self, workspace: WorkspaceName) -> "WorkspaceRoutes":
        return WorkspaceRoutes(self._gateways, self._contract_cache, workspace)

    def own_workspaces(self, submission_target: str) -> "list[WorkspaceRoutes]":
        """The routes of workspaces that configure this target themselves."""
        return list(map(self.of_workspace, self._gateways.own_workspaces(submission_target)))


class WorkspaceRoutes:
    """The routes that one workspace's messages may take, with its credentials."""

    def __init__(
        self, gateways: GatewayDirectory, contract_cache: ContractCache, workspace: WorkspaceName
    ) -> None:
        self._gateways = gateways
        self._contract_cache = contract_cache
        self.workspace = workspace
        self._known: dict[int, tuple[Contract, Route]] = {}
        """Keyed by the contract's identity: thousands of messages share one contract."""
        self.goes_around: Callable[[Contract, Contract], bool] = lambda *_: False

    def is_scoped(self, contract: Contract) -> bool:
        """Whether a configuration that is refused there belongs to this workspace alone."""
        return self._gateways.is_scoped(contract.submission_target, self.workspace)

    def own(self, contract: Contract) -> Route:
        known = self._known.get(id(contract))
        if known is None:
            known = self._known[id(contract)] = contract, self._make(contract)
        return known[1]

    def _make(self, contract: Contract) -> Route:
        return Route(
            contract.submission_target,
            contract.gateway_url,
            self._gateways.gateway(
                contract.submission_target,
                contract.gateway_type,
                contract.gateway_url,
                self.workspace,
            ),
            is_scoped=self.is_scoped(contract),
            shares_reports=self._gateways.shares_reports(
                contract.submission_target, self.workspace
            ),
        )

    def problem(self, contract: Contract) -> OutriderError | None:
        """Why its gateway cannot be created: a missing option or secret."""
        try:
            self.own(contract)
        except OutriderError as error:
            return error
        return None

    def problems(self, contracts: Iterable[Contract]) -> dict[Contract, OutriderError]:
        """The contracts among these whose gateway cannot be created, and why."""
        found = ((contract, self.problem(contract)) for contract in contracts)
        return {contract: problem for contract, problem in found if problem is not None}

    async def next(
        self,
        contract: Contract,
        fallback_contract_id: int | None,
        past: AttemptHistory,
        now: datetime,
    ) -> Route | None:
        """The route of the next attempt; None if calling again could deliver it twice."""
        if past.is_worn_out:
            return None
        if past.maybe_received:
            route = await self._to(past.last_contract_id, contract)
            return route if route and remembers(route.gateway, past.submitted_at, now) else None
        own = self.own(contract)
        if fallback_contract_id is None:
            return own
        if past.calls == 0:
            # Provably not taken by anybody.
            other_contract = await self._contract_cache.by_id(fallback_contract_id)
            if not self.goes_around(contract, other_contract):
                return own
        elif past.last_contract_id == fallback_contract_id:
            return own
        other = await self._to(fallback_contract_id, contract)
        if other is None or other.gateway.type.channel is not own.gateway.type.channel:
            log.warning("fallback_unusable", contract_id=fallback_contract_id)
            return own
        return other

    async def first(
        self, contract: Contract, fallback_contract_id: int | None, now: datetime
    ) -> Route:
        """The route of what was never attempted."""
        never = AttemptHistory(0, None, maybe_received=False, submitted_at=now)
        return await self.next(contract, fallback_contract_id, never, now) or self.own(contract)

    async def sorted_by_route(
        self,
        elements: Iterable[tuple[Element, Contract, int | None, AttemptHistory]],
        now: datetime,
    ) -> tuple[list[tuple[Route, list[Element]]], list[Element]]:
        """Elements by their route, and those that must not be called again."""
        # Items keep the contract they were submitted under, so one target may have several URLs.
        groups: dict[tuple[str, int], tuple[Route, list[Element]]] = {}
        unsafe = []
        for element, contract, fallback_contract_id, past in elements:
            route = (
                self.own(contract)
                if fallback_contract_id is None and not past.maybe_received
                else await self.next(contract, fallback_contract_id, past, now)
            )
            if route is None:
                unsafe.append(element)
            else:
                key = route.submission_target, id(route.gateway)
                groups.setdefault(key, (route, []))[1].append(element)
        return list(groups.values()), unsafe

    async def _to(self, contract_id: int | None, contract: Contract) -> Route | None:
        """The gateway of exactly that contract: a target of the same name may differ today."""
        if contract_id is None:
            return self.own(contract)
        other = await self._contract_cache.by_id(contract_id)
        try:
            route = self.own(other)
        except OutriderError as error:
            # A problem with a fallback must not stop the primary target.
            log.error("gateway_unusable", contract_id=contract_id, error=error.message)
            return None
        return replace(route, contract_id=contract_id)


def remembers(gateway: Gateway, submitted_at: datetime, now: datetime) -> bool:
    """Whether the gateway still remembers what it accepted under this reference, and for long
    enough to be asked."""
    return gateway.memory.allows_repeat(submitted_at, now)
