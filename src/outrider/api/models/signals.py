"""Signals on the wire."""

from typing import Annotated

from pydantic import ConfigDict, Field

from outrider.api.models.common import Line, Success
from outrider.documents import Document
from outrider.domain.signals import Signal
from outrider.kernel.transactions.signal_scripts import SignalAnswer
from outrider.limits.campaigns import NAME_MAX_CHARACTERS, SIGNAL_ID_MAX_CHARACTERS


class SignalBody(Document):
    model_config = ConfigDict(json_schema_extra={"examples": [{"signal": "PAUSE"}]})

    signal: Annotated[Signal, Field(strict=False)]
    step_id: Line | None = Field(
        default=None,
        max_length=SIGNAL_ID_MAX_CHARACTERS,
        description="The job to retry, for RETRY_STEP.",
    )
    message_id: Line | None = Field(
        default=None,
        min_length=1,
        max_length=NAME_MAX_CHARACTERS,
        description="The message whose variant is chosen, for DECIDE.",
    )
    variant: Line | None = Field(
        default=None,
        min_length=1,
        max_length=NAME_MAX_CHARACTERS,
        description="The variant that the last step of the rollout is sent, for DECIDE.",
    )
    signal_id: Line | None = Field(
        default=None,
        min_length=1,
        max_length=SIGNAL_ID_MAX_CHARACTERS,
        description="Repeating the signal with the same ID returns the same decision.",
    )


class SignalDone(Success):
    run_id: str
    signal: Signal
    signal_id: str
    step_id: str | None
    run_seq: int = Field(description="Position of the decision in the run's log.")
    changed: bool = Field(description="False if nothing had to change.")

    @classmethod
    def of(cls, answer: SignalAnswer) -> "SignalDone":
        return cls(
            run_id=answer.run_id,
            signal=answer.asked.signal,
            signal_id=answer.asked.signal_id,
            step_id=answer.asked.step_id,
            run_seq=answer.run_seq,
            changed=answer.changed,
        )
