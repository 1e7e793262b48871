"""What needs attention, on the wire."""

from datetime import datetime
from typing import Any

import msgspec
from pydantic import Field

from outrider.api.models.common import Answer
from outrider.kernel.transactions.trouble import Bypass


class TroubleAnswer(Answer):
    doubts: int
    alerts: int = Field(description="Open alerts.")
    dead_letters: int = Field(description="Dead letters not redriven yet.")
    bypasses: int = Field(description="All phase state changes made without their lifecycle event.")
    failed_events: int = Field(description="Domain events that could not be routed.")
    most: int = Field(description="Each figure stops counting at this number.")


class BypassAnswer(Answer):
    """A phase's state that was written around the state machine."""

    id: str
    created_at: datetime
    campaign_id: str
    phase: str
    from_status: str
    to_status: str
    caller: str
    reason: str

    @classmethod
    def of(cls, bypass: Bypass) -> "BypassAnswer":
        detail: dict[str, Any] = msgspec.json.decode(bypass.detail)
        return cls(
            id=bypass.id,
            created_at=bypass.created_at,
            campaign_id=bypass.campaign_id,
            phase=detail["phase"],
            from_status=detail["from_status"],
            to_status=detail["to_status"],
            caller=detail["caller"],
            reason=detail["reason"],
        )
