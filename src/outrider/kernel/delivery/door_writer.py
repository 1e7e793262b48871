"""The door writer: updates the door state shared by all workers, with its alert, and logs it."""

from datetime import datetime

import structlog

from outrider.domain.blocker_facts import ClosedDoor
from outrider.domain.blocker_words import door_message
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.targets import (
    Door,
    DoorState,
    TargetPolicy,
)
from outrider.domain.times import rfc3339
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.alerts import (
    Alert,
    AlertCode,
)
from outrider.kernel.transactions.targets import DoorKey

log = structlog.get_logger()


class DoorWriter:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def change(
        self,
        scope: Scope,
        key: DoorKey,
        policy: TargetPolicy,
        change: targets.Change[tuple[Door, Door]],
        now: datetime,
        owner_reason: str | None = None,
    ) -> tuple[Door, Door]:
        """Change a door, and raise or resolve its alert with it, in the workspace that asked."""

        target = key.submission_target

        def alert_of(door: Door) -> Alert | None:
            if not self._is_alarming(door, now):
                return None
            own_reason = owner_reason if scope == DEFAULT_SCOPE else None
            reason = own_reason or door.reason
            detail = {"submissionTarget": target, "state": door.state.value, "reason": reason}
            closed = ClosedDoor(door.state, door.since or now, door.opens_at, reason, door.is_held)
            detail["since"] = rfc3339(closed.since)
            return Alert(scope, door_alert(closed), target, door_message(target, closed), detail)

        script = targets.change_door_with_alert(
            key, policy, change, scope, alert_of, self._ids, now
        )
        return await self._store.write(script)

    def _is_alarming(self, door: Door, now: datetime) -> bool:
        """Throttling is routine at first; it becomes alarming only after a while."""
        if door.is_open or door.since is None or door.probe_until is not None:
            return False
        lasted = (now - door.since).total_seconds()
        return door.state is DoorState.DOWN or lasted >= self._limits.door_alert_seconds

    def log_change(self, key: DoorKey, before: Door, after: Door) -> None:
        if before.state != after.state:
            log.warning(
                "target_door_" + after.state.value, submission_target=key.submission_target,
                gateway_url=key.gateway_url, workspace_id=key.workspace_id or None,
                reason=after.reason, opens_at=after.opens_at,
            )  # fmt: skip


def door_alert(door: ClosedDoor) -> AlertCode:
    if door.state is DoorState.THROTTLED:
        return AlertCode.TARGET_THROTTLED
    return AlertCode.TARGET_HELD if door.is_held else AlertCode.TARGET_DOWN
