"""The target keeper: an operator's controls of a submission target, and an overview of all
targets."""

from outrider.domain.ids import Scope
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.targets import Overview


class TargetKeeper:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def overview(self) -> Overview:
        return await self._store.read(targets.overview(self._limits.page_items))

    async def pause(self, scope: Scope, submission_target: str, actor: str) -> bool:
        """Whether it was running before. Workers stop beginning calls there within a second."""
        return await self._store.write(
            targets.pause_recorded(scope, submission_target, actor, self._ids, self._clock.now())
        )

    async def resume(self, scope: Scope, submission_target: str, actor: str) -> bool:
        """Whether it was paused."""
        return await self._store.write(
            targets.resume_recorded(scope, submission_target, actor, self._ids, self._clock.now())
        )

    async def reset(self, scope: Scope, submission_target: str, actor: str) -> bool:
        """Open all its doors and clear their failures; returns whether there was anything to
        clear."""
        return await self._store.write(
            targets.reset_recorded(
                scope,
                submission_target,
                actor,
                self._limits.page_items,
                self._ids,
                self._clock.now(),
            )
        )
