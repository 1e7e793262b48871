"""Routes: through which target's gateway an item's next attempt goes.

A fallback is duplicate-safe by one rule: it is used only when every earlier attempt is proven not
to have been taken. After a silence only the provider that was silent may be asked again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeVar

import structlog

from outrider.domain.errors import OutriderError
from outrider.domain.retry import CALL_REPEATS_MAX
from outrider.domain.submission import Contract
from outrider.kernel.contract_shelf import ContractShelf
from outrider.kernel.transactions.ledger import RepeatWord
from outrider.ports.gateway import Gateway, GatewayDirectory

log = structlog.get_logger()

Element = TypeVar("Element")


@dataclass(frozen=True, slots=True)
class Route:
    """A gateway, and the contract it belongs to: None where that is the item's own."""

    submission_target: str
    gateway_url: str
    gateway: Gateway
    contract_id: int | None = None

    @property
    def word(self) -> RepeatWord:
        return RepeatWord(self.submission_target, str(self.gateway.memory))


@dataclass(frozen=True, slots=True)
class Past:
    """What the ledger says of an item's earlier calls, whether they counted as attempts or not."""

    calls: int
    last_contract_id: int | None
    maybe_received: bool
    submitted_at: datetime
    is_worn_out: bool = False
    """Its call was abandoned as often as one attempt may be: it is not to kill one more worker."""


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


def past_of(row: Attempted) -> Past:
    """An attempt that was left open is a silence like any other."""
    silent = bool(row.is_open or row.maybe_received)
    calls = row.attempts + row.uncounted_calls
    worn_out = bool(row.is_open) and row.repeats >= CALL_REPEATS_MAX
    return Past(calls, row.attempt_contract_id, silent, row.created_at, worn_out)


class Routes:
    def __init__(self, gateways: GatewayDirectory, shelf: ContractShelf) -> None:
        self._gateways = gateways
        self._shelf = shelf

    def own(self, contract: Contract) -> Route:
        return Route(
            contract.submission_target,
            contract.gateway_url,
            self._gateways.gateway(
                contract.submission_target, contract.gateway_type, contract.gateway_url
            ),
        )

    def problem(self, contract: Contract) -> OutriderError | None:
        """Why its gateway cannot be made: an option or a secret that is missing."""
        try:
            self.own(contract)
        except OutriderError as error:
            return error
        return None

    def problems(self, contracts: Iterable[Contract]) -> dict[Contract, OutriderError]:
        """Of these, the ones whose gateway cannot be made, and why."""
        found = ((contract, self.problem(contract)) for contract in contracts)
        return {contract: problem for contract, problem in found if problem is not None}

    async def next(
        self, contract: Contract, fallback_contract_id: int | None, past: Past, now: datetime
    ) -> Route | None:
        """The route of the next attempt; None where calling again could be a second delivery."""
        if past.is_worn_out:
            return None
        if past.maybe_received:
            route = await self._to(past.last_contract_id, contract)
            return route if route and remembers(route.gateway, past.submitted_at, now) else None
        own = self.own(contract)
        if fallback_contract_id is None or past.calls % 2 == 0:
            return own
        other = await self._to(fallback_contract_id, contract)
        if other is None or other.gateway.type.channel is not own.gateway.type.channel:
            log.warning("fallback_unusable", contract_id=fallback_contract_id)
            return own
        return other

    async def sorted_by_route(
        self, elements: Iterable[tuple[Element, Contract, int | None, Past]], now: datetime
    ) -> tuple[list[tuple[Route, list[Element]]], list[Element]]:
        """Elements by the route they take, and those that must not be called again."""
        # Items keep the contract they were submitted under, so one target may have several URLs.
        groups: dict[tuple[str, int], tuple[Route, list[Element]]] = {}
        unsafe = []
        for element, contract, fallback_contract_id, past in elements:
            route = await self.next(contract, fallback_contract_id, past, now)
            if route is None:
                unsafe.append(element)
            else:
                key = route.submission_target, id(route.gateway)
                groups.setdefault(key, (route, []))[1].append(element)
        return list(groups.values()), unsafe

    async def _to(self, contract_id: int | None, contract: Contract) -> Route | None:
        """The gateway of exactly that contract: a target of the same name may be another today."""
        if contract_id is None:
            return self.own(contract)
        other = await self._shelf.by_id(contract_id)
        try:
            route = self.own(other)
        except OutriderError as error:
            # What is wrong with a fallback must not stop the target that has it.
            log.error("gateway_unusable", contract_id=contract_id, error=error.message)
            return None
        return replace(route, contract_id=contract_id)


def remembers(gateway: Gateway, submitted_at: datetime, now: datetime) -> bool:
    """Whether the gateway still knows what it took under this reference."""
    return gateway.memory.holds(submitted_at, now)
