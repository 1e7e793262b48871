"""Claiming, processing and rescuing jobs; the clock; background loops; what is watched; engines."""

from dataclasses import dataclass

EXPIRED_LOGGED_ITEMS_MAX = 100
"""Logged per window: many deadlines at once must not flood the log."""


@dataclass(frozen=True)
class WorkLimits:
    """For the kernel's room `work`."""

    stale_lock_seconds: float = 300.0
    rescue_interval_seconds: float = 2.0
    clock_look_seconds: float = 5.0
    clock_keep_seconds: float = 30.0
    clock_step_seconds: float = 1.0
    """A clock that differs by more than this has not drifted: it was set."""
    clock_skew_seconds: float = 5.0
    clock_ahead_seconds: float = 86_400.0
    """A ledger whose time is further ahead of the database's follows it back."""
    claim_pause_seconds: float = 0.05
    jobs_in_parallel: int = 4
    lanes_in_parallel: int = 64
    batch_lanes_in_parallel: int = 48
    queue_groups: int = 1_000
    queue_groups_seconds: float = 1.0
    expire_seconds: float = 1.0
    expire_items: int = 5_000
    cut_off_stop_seconds: float = 15.0
    """A stopping process abandons a database that has not answered for this long."""
    cut_off_look_seconds: float = 1.0
    progress_seconds: float = 1.0
    progress_phases: int = 100
    progress_events_kept: int = 20
    projector_lag_alert_seconds: float = 5.0
    worker_beat_seconds: float = 2.0
    worker_silent_seconds: float = 7.0
    """A process that has not written its row for this long is frozen, cut off or dead."""
    worker_forget_seconds: float = 3_600.0
    workers_judged: int = 1_000
    workers_held: int = 10_000
    watcher_seconds: float = 2.0
    watcher_whole_visits: int = 8
    """On every visit of this multiple, the watcher also looks for less urgent problems."""
    watcher_look_seconds: float = 10.0
    watcher_repeat_seconds: float = 30.0
    watcher_stall_seconds: float = 120.0
    run_stall_seconds: float = 30.0
    no_worker_seconds: float = 5.0
    sink_failing_seconds: float = 5.0
    history_behind_seconds: float = 300.0
    doubts_wait_seconds: float = 300.0
    watcher_runs: int = 1_000
    database_still_down_seconds: float = 60.0
    watcher_notice_seconds: float = 86_400.0
    watcher_subjects: int = 100
    watcher_alerts: int = 1_000
    housekeeper_restart_seconds: float = 5.0
    spool_seconds: float = 2.0
    spool_entries: int = 1_000
    recovery_jobs: int = 200
    recovery_messages: int = 5_000
    engine_tell_seconds: float = 5.0
    engine_wait_seconds: float = 0.5
    engine_deaf_seconds: float = 5.0
    stalled_look_seconds: float = 0.25
    stalled_after_seconds: float = 0.25
    stalled_recheck_seconds: float = 0.5
    stalled_retell_seconds: float = 5.0
    stalled_page: int = 200
    stalled_most: int = 10_000
    stalled_told_at_once: int = 32
    stalled_asked_per_second: float = 50.0
