"""Sinks of run events."""

from dataclasses import dataclass

SINK_TIMEOUT_SECONDS = 10.0
SINK_REACH_SECONDS = 3.0
SINK_NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
SINKS_MAX = 50
WEBHOOK_CONCURRENCY = 16
WEBHOOK_ANSWER_MAX_BYTES = 16_384
NATS_CONCURRENCY = 64
NATS_STREAM_KEPT_SECONDS = 7 * 86_400
NATS_DUPLICATES_SECONDS = 7_200
REDIS_STREAM_ENTRIES = 1_000_000
MESSAGE_WORDS_MAX_CHARACTERS = 4_096
"""How much of a provider's reason, or of a reply, a message event carries."""
CALLBACK_CONCURRENCY = 16
CALLBACKS_AT_ONE_ADDRESS = 4
"""Calls of one address side by side; the others are for others, should it be slow."""
CALLBACK_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class BusLimits:
    """For the kernel's room `bus`."""

    bus_lease_seconds: float = 15.0
    bus_poll_seconds: float = 0.25
    message_queue_poll_seconds: float = 2.0
    """How often a queue of message events is looked into while it is empty."""
    bus_stop_seconds: float = 15.0
    bus_window_events: int = 500
    bus_window_runs: int = 100
    bus_max_attempts: int = 20
    bus_forget_items: int = 5_000
    bus_counted: int = 100_000
