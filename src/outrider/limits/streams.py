"""Live campaign events."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamsLimits:
    """For the kernel's room `streams`."""

    replay_events: int = 500
    watcher_events: int = 1_000
    event_poll_seconds: float = 0.25
