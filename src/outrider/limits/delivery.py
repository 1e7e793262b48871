"""From a claimed job to a provider's answer: callers, permits, lanes, doors, commits of results."""

from dataclasses import dataclass

ASSETS_REMEMBERED_MAX = 1_000
SHARE_LOOK_SECONDS = 0.5
"""How often a worker without a share of a domain's connections asks for one."""
LONGEST_TURN_SECONDS = 60.0
ANSWERS_LATELY_SECONDS = 5.0
"""A domain that has ended no call for so long may be hanging."""
ERROR_LOGGED_AGAIN_SECONDS = 60.0
LANES_REMEMBERED_MAX = 5_000
"""As many contracts, and as many lanes."""
LEFT_WINDOWS_MAX = 10
CLOSE_LOGGED_ITEMS = 10
CAREFUL_SHIFTS_MAX = 16
SHAPED_LOOK_SECONDS = 0.05
"""How often a domain is looked at that another worker may have opened."""
PAUSED_LOOK_SECONDS = 1.0
FULL_LOOK_SECONDS = 0.5
REFUSED_SECONDS = 1.0
REFUSED_MAX = 5
DOMAIN_PROBE_SECONDS = 15.0
"""If the worker that probes dies, another may try after this."""


@dataclass(frozen=True)
class DeliveryLimits:
    """For the kernel's room `delivery`."""

    shortage_tell_seconds: float = 10.0
    permit_seconds: float = 2.0
    permit_look_seconds: float = 0.1
    permit_trust_seconds: float = 0.005
    lane_look_seconds: float = 0.1
    opened_ahead_seconds: float = 0.25
    beside_lanes_seconds: float = 1.0
    beside_lanes_items: int = 50
    """A campaign's window, for this long after a single message: both share loop and writer."""
    right_of_way_seconds: float = 0.05
    """The longest single wait of a campaign for single messages to reach their call."""
    one_window_seconds: float = 0.5
    """The longest wait of a campaign's window for the previous one, while there are messages."""
    calls_in_a_row: int = 25
    """Beside single messages, calls that never wait yield to other tasks after this many."""
    share_seconds: float = 1.0
    door_alert_seconds: float = 5.0
    """A target that turned every caller away for this long raises an alert; a down one at once."""
    door_unused_seconds: float = 15.0
    """A closed door at an address that nothing names any more is forgotten this long after calls
    were allowed again, if nobody made one."""
    door_sweep_seconds: float = 3.0
    gate_scopes: int = 10_000
    close_group_items: int = 500
    close_group_seconds: float = 0.004
    close_groups_in_parallel: int = 4
    close_patience_seconds: float = 300.0
    close_backoff_seconds: float = 0.2
    gate_trust_seconds: float = 0.5
    gate_patience_seconds: float = 0.3
    domain_patience_seconds: float = 1.0
    """How long a job waits for a domain that is busy, before its messages are set aside."""
    domain_calls: int = 100
    """The most calls to one domain that are admitted at once."""
    domains_known: int = 20_000
    """How many domains of a route a process remembers, unless more are in use."""
    lane_window_items: int = 500
    lane_rounds: int = 50
    enclosing_items: int = 16
    enclosure_wait_seconds: float = 60.0
    policies_remembered: int = 1_000
    policy_remember_seconds: float = 1.0
