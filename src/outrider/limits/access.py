"""Keys, sessions, idempotency, wrong keys."""

from dataclasses import dataclass

RECENT_KEYS_MAX = 100
RECENT_KEY_SECONDS = 3_600.0
IDEMPOTENCY_TTL_SECONDS = 300
IDEMPOTENCY_RUNNING_SECONDS = 8
"""A claim not renewed for this long belongs to a dead server; shorter than any client waits."""
IDEMPOTENCY_RENEW_SECONDS = 2.0
IDEMPOTENCY_PRUNE_ITEMS = 10
ROOT_KEY_MIN_CHARACTERS = 16
KEYS_REMEMBERED = 1_000
KEY_REMEMBER_SECONDS = 5.0
SESSION_SECONDS = 8 * 3_600
FAILED_AUTH_BURST = 10
FAILED_AUTH_REFILL_SECONDS = 6.0
FAILED_AUTH_CLIENT_BURST = 100
"""Wrong keys of one client over all its keys; `FAILED_AUTH_BURST` applies to each of them."""
FAILED_AUTH_CLIENT_REFILL_SECONDS = 0.6
FAILED_AUTH_LOOKUPS = 2
"""Concurrent key look-ups for clients over that limit."""
FORWARDED_HOPS_MAX = 20
FAILED_AUTH_ADDRESSES = 10_000
FAILED_AUTH_ADDRESS_MAX_CHARACTERS = 64


@dataclass(frozen=True)
class AccessLimits:
    """For the kernel's room `access`."""

    workspace_names: int = 10_000
    """Remembered per process; then all are read again."""
