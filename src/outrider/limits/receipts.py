"""The way back: what a callback may hold, how often an item is looked for, when a rate alarms."""

from dataclasses import dataclass

CALLBACK_MAX_BYTES = 1024 * 1024
READ_HERE_MAX_BYTES = 64 * 1024
"""A larger callback is read in a thread, so that nobody else waits for it."""
RECEIPT_ID_MAX_CHARACTERS = 200
"""A longer one is kept as its hash: it is compared, and nobody reads it."""
PROVIDER_MESSAGE_ID_MAX_CHARACTERS = 512
REASON_MAX_CHARACTERS = 2_000
REPLY_MAX_CHARACTERS = 10_000
IMPORT_MAX_BYTES = 256 * 1024 * 1024
IMPORT_WINDOW_ITEMS = 1_000
ANSWER_MAX_CHARACTERS = 1_000
"""Of an answer to STOP or HELP."""
SHARED_LOOK_UPS_AT_ONCE = 20_000
"""Of a target that workspaces share, a reference is looked for in each of them."""
DOUBT_ASSETS_REMEMBERED_MAX = 100


@dataclass(frozen=True)
class RateLimits:
    """What share of a target's messages may bounce or draw complaints without an alert."""

    bounced: float = 0.05
    complained: float = 0.003


DEFAULT_RATE_LIMITS = RateLimits()
ROLLOUT_FAILURE_RATE = 0.1
"""What share of a rollout's messages may fail or stay in doubt, if its campaign does not say."""


@dataclass(frozen=True)
class ReceiptLimits:
    shared_callbacks: int = 200
    """Callbacks of one moment that share a commit."""
    commits_at_once: int = 2
    shared_company: int = 16
    """How many callbacks must be waiting before a second commit starts beside the first: it is
    prepared while that one is written."""
    window_items: int = 1_000
    """Receipts that are matched in one transaction."""
    windows_at_once: int = 2
    """While nothing is sent: one waits for the disk while another is matched."""
    look_again_seconds: tuple[float, ...] = (0.5, 2.0, 10.0, 60.0, 300.0, 600.0)
    """Delays after each failed match; after the last, a receipt is only listed. Its item's row
    existed before the call, so a receipt that stays unmatched for long belongs to nobody here."""
    poll_seconds: float = 2.0
    retry_look_seconds: float = 0.5
    """Where receipts are due and another matcher has them."""
    beside_sending_share: float = 0.1
    """The largest share of its process's time that the matcher takes while messages are being sent
    there, however many receipts are waiting."""
    sought_max: int = 10_000
    """Unmatched receipts of a target that are still being matched again. While it has this many, no
    more are accepted."""
    sought_trust_seconds: float = 1.0
    sharers_trust_seconds: float = 5.0
    """How old the knowledge may be of who shares a target: workspaces come, and do not go."""
    reply_workspaces: int = 1_000
    """How many workspaces of a shared target a reply without a reference may concern."""
    sought_retry_after_seconds: int = 60
    rate_hours: int = 24
    rate_sample_messages: int = 100
    """Of fewer messages of a target no rate is computed: two bounces among ten would be 20 %."""
    sent_flush_seconds: float = 5.0
    tallies_kept_hours: int = 24 * 7


DEFAULT_RECEIPT_LIMITS = ReceiptLimits()


@dataclass(frozen=True)
class ReceiptsLimits:
    """For the kernel's room `receipts`."""

    reconcile_items: int = 500
    doubt_poll_seconds: float = 1.0
    doubt_first_seconds: float = 1.0
    doubt_factor: float = 2.0
    doubt_cap_seconds: float = 30.0
    doubt_worn_out_seconds: float = 5.0
    doubt_eager_checks: int = 120
    """About an hour of checks; after that a person has to act, and only the late rate is used."""
    doubt_late_seconds: float = 900.0
    doubt_window_items: int = 100
    doubt_lease_seconds: float = 15.0
    """Extended while its settler works on it; if that dies, another takes over after this."""
    doubt_targets_in_parallel: int = 8
    look_up_skew_seconds: float = 60.0
    """How far a provider's clock may differ from the ledger's."""
    recipe_seconds: float = 30.0
    resolved_at_once: int = 10_000
