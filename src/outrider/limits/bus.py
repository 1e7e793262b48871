"""Sinks of run events."""

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
"""Of a provider's reason, or of a reply: as much of it as a message event carries."""
CALLBACK_CONCURRENCY = 16
CALLBACKS_AT_ONE_ADDRESS = 4
"""Calls of one address side by side; the others are for others, should it be slow."""
CALLBACK_TIMEOUT_SECONDS = 10.0
