"""The target's holds: its door is closed because a call cannot even be made, until that is mended.

A hold has a reason, and only what closed the door for that reason opens it again.
"""

from dataclasses import replace
from datetime import datetime

from outrider.domain.call_results import SETUP_WRONG, TARGET_SETUP
from outrider.domain.targets import Door, hold, reset
from outrider.kernel.delivery.door_writer import DoorWriter
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.targets import DoorKey


class TargetHolds:
    def __init__(self, foundation: Foundation, gate: TargetGate) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._gate = gate
        self._writer = DoorWriter(foundation)
        self._trust_seconds = foundation.limits.gate_trust_seconds
        self._page_items = foundation.limits.page_items

    async def hold(self, key: DoorKey, problem: str, door_key: DoorKey | None = None) -> datetime:
        """Close the door because calls cannot even be made; returns when to check again.

        It is the shared door, unless another is named; then only the default workspace, which owns
        that configuration, is notified of the problem.
        """
        policy, now = self._gate.policy(key.submission_target), self._clock.now()
        closing = door_key or key.shared
        local = self._gate.door(closing)
        if local.closed_until is not None and now < local.closed_until:
            return local.closed_until
        words = f"{TARGET_SETUP}: {problem}"
        reason = words if closing.workspace_id else SETUP_WRONG

        def change(door: Door) -> tuple[Door, tuple[Door, Door]]:
            if door.opens_at is not None and now < door.opens_at:
                return door, (door, door)
            after = hold(door, policy, reason, now)
            return after, (door, after)

        before, after = await self._writer.change(
            self._gate.scope_of(key), closing, policy, change, now, words
        )
        local.shut()
        local.learn(after, now, self._trust_seconds)
        assert after.opens_at is not None
        self._writer.log_change(closing, before, replace(after, reason=words))
        return after.opens_at

    async def held_for(self, why: str) -> set[DoorKey]:
        """The doors that are closed for this reason."""
        doors = await self._store.read(targets.all_doors(self._page_items))
        return {
            key
            for key, door in doors.items()
            if not door.is_open and (door.reason or "").startswith(why)
        }

    async def open_again(self, key: DoorKey, why_held: str) -> None:
        """Open the door if this was the only reason it was held."""
        policy, now = self._gate.policy(key.submission_target), self._clock.now()

        def change(door: Door) -> tuple[Door, tuple[Door, Door]]:
            is_resolved = not door.is_open and (door.reason or "").startswith(why_held)
            after = reset(door, now) if is_resolved else door
            return after, (door, after)

        before, after = await self._writer.change(
            self._gate.scope_of(key), key.shared, policy, change, now
        )
        self._gate.door(key.shared).learn(after, now, self._trust_seconds)
        self._writer.log_change(key.shared, before, after)
