"""Contract 004's words for an item: pending, processing, succeeded, failed.

The view `notification_outbox` says the same in SQL, for readers of the database.
"""

from enum import StrEnum

from outrider.domain.states import SUCCESSES, ItemStatus


class NotificationStatus(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


def notification_status(status: ItemStatus, *, is_open: bool, in_doubt: bool) -> NotificationStatus:
    """A skipped item was never sent, so it is failed; one in doubt is not finished."""
    if status in SUCCESSES:
        return NotificationStatus.SUCCEEDED
    if status in (ItemStatus.FAILED, ItemStatus.SKIPPED):
        return NotificationStatus.FAILED
    if is_open or in_doubt:
        return NotificationStatus.PROCESSING
    return NotificationStatus.PENDING
