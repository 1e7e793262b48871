"""The run repointer: moves what no provider can have to its target's current address.

A run keeps the contracts it was launched under; only the URL is taken from the registry in force.
Items that may have arrived stay where they were, and only that provider is asked again.
"""

from dataclasses import replace

from outrider.domain.errors import Conflict
from outrider.domain.ids import RunId, Scope
from outrider.domain.states import TERMINAL_RUNS, RunStatus
from outrider.domain.submission import Contract
from outrider.kernel.contracts.contract_cache import ContractCache, snapshot_of
from outrider.kernel.contracts.registry_keeper import RegistryKeeper
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import repointing, run_records
from outrider.kernel.transactions.repointing import Repointed, RunContract


class RunRepointer:
    def __init__(self, foundation: Foundation, registry: RegistryKeeper) -> None:
        self._store = foundation.store
        self._registry = registry
        self._contract_cache = ContractCache(foundation.store)
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def repoint(self, scope: Scope, run_id: RunId, actor: str) -> list[Repointed]:
        """What was moved, by contract; nothing if the registry has the same URL."""
        run = await self._store.read(run_records.run(scope, run_id))
        if RunStatus(run.status) in TERMINAL_RUNS:
            raise Conflict(
                f"the run is {run.status}, so nothing in it is waiting",
                hint="retry its phase: the new run uses the registry's current address",
            )
        moves = []
        for found in await self._store.read(repointing.contracts_of(run.id)):
            contract = await self._contract_cache.by_id(found.contract_id)
            present = self._registry.contracts().get(contract.submission_target)
            if present is not None and present.gateway_url != contract.gateway_url:
                _refuse_another_type(contract, present)
                moves.append((found, contract, present.gateway_url))
        return [
            await self._move(scope, run.id, found, contract, url, actor)
            for found, contract, url in moves
        ]

    async def _move(
        self,
        scope: Scope,
        run_id: RunId,
        found: RunContract,
        contract: Contract,
        to_url: str,
        actor: str,
    ) -> Repointed:
        target, old_id = contract.submission_target, found.contract_id
        most = self._limits.repoint_jobs
        snapshot = snapshot_of(replace(contract, gateway_url=to_url))
        new_id = await self._store.write(
            repointing.store_contract(snapshot, target, self._clock.now())
        )
        jobs = 0
        while True:
            moved = await self._store.write(
                repointing.move(run_id, old_id, new_id, most, self._clock.now())
            )
            jobs += moved.jobs
            if moved.jobs < most:
                break
        kept = await self._store.read(repointing.kept(run_id, old_id))
        done = Repointed(target, contract.gateway_url, to_url, jobs, kept, found.busy_jobs)
        await self._store.write(
            repointing.record_move(scope, run_id, done, actor, self._ids, self._clock.now())
        )
        return done


def _refuse_another_type(contract: Contract, present: Contract) -> None:
    """The messages were composed for the gateway family that the run was launched with."""
    if present.gateway_type != contract.gateway_type:
        raise Conflict(
            f"the target {contract.submission_target} has another gateway type now:"
            f" {present.gateway_type} instead of {contract.gateway_type}",
            hint="stop the phase and retry it: the new run uses the registry's current address",
        )
