"""`[retention]`: when old runs and messages are retired, and how long they are recognised."""

from pydantic import BaseModel, ConfigDict, Field

from outrider.limits.proof import RETIRE_MEMORY_DAYS, RETIRE_MIN_DAYS

DAYS_MAX = 36_500


class RetentionSettings(BaseModel):
    """When old runs and messages are retired."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after_days: int | None = Field(default=None, ge=RETIRE_MIN_DAYS, le=DAYS_MAX)
    """Workers retire what ended longer ago than this; without it, only `outrider retire` does."""
    memory_days: int = Field(default=RETIRE_MEMORY_DAYS, ge=1, le=DAYS_MAX)
    """How long a repeat of what was retired is still recognised, and not sent."""
