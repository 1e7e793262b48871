"""The target keeper: what an operator asks of a submission target, and how all of them fare."""

from outrider.domain.ids import Scope
from outrider.domain.targets import Door, TargetPolicy, reset
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.alerts import AlertCode, resolve_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.targets import Overview
from outrider.ports.store import Transaction


class TargetKeeper:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def overview(self) -> Overview:
        return await self._store.read(targets.overview(self._limits.page_items))

    async def pause(self, scope: Scope, submission_target: str, actor: str) -> bool:
        """Whether it was not paused before. Workers begin no call there within a second."""
        return await self._store.write(self._pause(scope, submission_target, actor))

    async def resume(self, scope: Scope, submission_target: str, actor: str) -> bool:
        """Whether it was paused."""
        return await self._store.write(self._resume(scope, submission_target, actor))

    async def reset(self, scope: Scope, submission_target: str, actor: str) -> bool:
        """Open all its doors and forget what went wrong there; whether there was anything."""
        return await self._store.write(self._reset(scope, submission_target, actor))

    def _pause(self, scope: Scope, target: str, actor: str) -> Transaction[bool]:
        changed = yield from targets.pause(target, actor, self._clock.now())
        if changed:
            yield from self._recorded(scope, "target.paused", target, actor)
        return changed

    def _resume(self, scope: Scope, target: str, actor: str) -> Transaction[bool]:
        changed = yield from targets.resume(target)
        if changed:
            yield from targets.wake(target, self._clock.now())
            yield from self._recorded(scope, "target.resumed", target, actor)
        return changed

    def _reset(self, scope: Scope, target: str, actor: str) -> Transaction[bool]:
        now = self._clock.now()

        def anew(door: Door) -> tuple[Door, None]:
            return reset(door, now), None

        troubled = yield from targets.troubled_doors(target, self._limits.page_items)
        for key in troubled:
            yield from targets.change_door(key, TargetPolicy(), anew, now)
        if troubled:
            yield from targets.wake(target, now)
            yield from resolve_alert(AlertCode.TARGET_HELD, target, now)
            yield from self._recorded(scope, "target.reset", target, actor)
        return bool(troubled)

    def _recorded(self, scope: Scope, event: str, target: str, actor: str) -> Transaction[None]:
        entry = AuditEntry(scope, event, actor, detail={"submissionTarget": target})
        yield from record([entry], self._ids, self._clock.now())
