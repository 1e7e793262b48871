"""Traces of deliveries: a window of messages that is opened, and the calls of it.

There is no tracer where nobody collects traces, so that delivering costs nothing more then.
"""

from typing import NamedTuple, Protocol


class WindowFacts(NamedTuple):
    """What was opened together. Ids only: no addresses and no texts."""

    tenant_id: str
    run_id: str | None
    """None of single messages, which belong to a lane."""
    job_id: str
    submission_target: str
    gateway_type: str
    gateway_url: str
    messages: int


class CallFacts(NamedTuple):
    """One call that has ended. `error`: what it ended with; None if the provider accepted it."""

    outbox_id: str
    reference: str
    attempt: int
    repeat: int
    seconds: float
    error: str | None


class WindowTrace(Protocol):
    """Ends with the last of its messages."""

    def called(self, call: CallFacts) -> None: ...

    def given_back(self) -> None:
        """One of its messages was not called after all."""


class DeliveryTracer(Protocol):
    def opened(self, window: WindowFacts, seconds: float) -> WindowTrace:
        """The window is open; opening it took so long."""
        ...
