"""Domain events, rules and what follows from them."""

from dataclasses import dataclass

EVENT_ITEMS_MAX = 10_000
WORKFLOW_RULES_MAX = 1_000
WORKFLOW_STEPS_MAX = 50
WORKFLOW_FILE_MAX_BYTES = 16 * 1024 * 1024
STEP_ORDER_MAX = 1_000_000
CUSTOM_RECIPIENTS_MAX = 100
MOMENT_PATH_MAX_CHARACTERS = 200
DELAY_MAX_SECONDS = 366 * 86_400
ENCLOSURES_MAX_BYTES = 7 * 1024 * 1024
QUOTE_ITEMS_MAX = 200
QUOTE_TEXT_MAX_CHARACTERS = 300
QUOTE_AMOUNT_MAX_CHARACTERS = 80
QUOTE_LETTERS_MAX = 1_000
"""Distinct letters embedded into its PDF: at most two seconds of processor time."""
EVENT_TEXTS_MAX_BYTES = 32 * 1024 * 1024
POLICY_MAX_BYTES = 65_536
SENDING_WINDOWS_MAX = 20
EXEMPT_TOPICS_MAX = 100
CHECKED_RULES_WINDOW = 500
WORKFLOW_ATTEMPTS_MAX = 50
WORKFLOW_WAIT_MAX_SECONDS = 24 * 3_600
WORKFLOW_RETRY_FACTOR_MAX = 10.0
FREQUENCY_MESSAGES_MAX = 100
FREQUENCY_HOURS_MAX = 24 * 366
UNKNOWN_ZONES_REMEMBERED = 1_000
DIGEST_ENTRIES_MAX = 500
EXPLAINED_ITEMS_MAX = 100
REHEARSED_SHOWN_MAX = 100
EMITTED_AT_ONCE = 500
EMITTED_REQUESTS = 16
EVENT_LINE_MAX_BYTES = 1024 * 1024
DIGEST_VARIABLES_MAX_BYTES = 1024 * 1024
NOTIFICATION_WINDOW_BYTES = 4 * 1024 * 1024
"""Maximum size of one statement's data, unless a single row is larger."""
NOTIFICATION_ROW_BYTES = 1_024


@dataclass(frozen=True)
class WorkflowsLimits:
    """For the kernel's room `workflows`."""

    trouble_counted: int = 10_000
    router_poll_seconds: float = 1.0
    router_lease_seconds: float = 10.0
    router_events: int = 250
    router_texts: int = 500
    router_bytes: int = 2 * 1024 * 1024
    router_attempts: int = 5
    event_items: int = EVENT_ITEMS_MAX
    digester_seconds: float = 1.0
    digester_digests: int = 50
    digester_lease_seconds: float = 60.0
