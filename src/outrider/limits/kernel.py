"""Every loop, batch, queue, lease, payload and wait of the kernel."""

from dataclasses import dataclass

from outrider.limits.workflows import EVENT_ITEMS_MAX


@dataclass(frozen=True)
class Limits:
    """Every loop, batch, queue, lease, payload and wait of the kernel."""

    lease_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    stale_lock_seconds: float = 300.0
    rescue_interval_seconds: float = 2.0
    clock_look_seconds: float = 5.0
    clock_keep_seconds: float = 30.0
    clock_step_seconds: float = 1.0
    """A clock that differs by more than this has not drifted: it was set."""
    clock_skew_seconds: float = 5.0
    clock_ahead_seconds: float = 86_400.0
    """A ledger whose time is further ahead of the database's follows it back."""
    shortage_tell_seconds: float = 10.0
    idle_poll_seconds: float = 1.0
    claim_pause_seconds: float = 0.05
    jobs_in_parallel: int = 4
    lanes_in_parallel: int = 64
    batch_lanes_in_parallel: int = 48
    queue_groups: int = 1_000
    queue_groups_seconds: float = 1.0
    yield_after_seconds: float = 0.5
    permit_seconds: float = 2.0
    permit_look_seconds: float = 0.1
    permit_trust_seconds: float = 0.005
    suspension_poll_seconds: float = 0.01
    expire_seconds: float = 1.0
    expire_items: int = 5_000
    lane_look_seconds: float = 0.1
    opened_ahead_seconds: float = 0.25
    beside_lanes_seconds: float = 1.0
    beside_lanes_items: int = 50
    """A campaign's window, for this long after a single message: both share loop and writer."""
    beside_lanes_recipients: int = 250
    """The same for a window of recipients that are being imported."""
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
    repoint_jobs: int = 20
    """In one transaction, with all of their rows."""
    cut_off_stop_seconds: float = 15.0
    """A stopping process abandons a database that has not answered for this long."""
    cut_off_look_seconds: float = 1.0
    workspace_names: int = 10_000
    """Remembered per process; then all are read again."""
    job_max_attempts: int = 5
    close_group_items: int = 500
    close_group_seconds: float = 0.004
    close_groups_in_parallel: int = 4
    close_patience_seconds: float = 300.0
    close_backoff_seconds: float = 0.2
    store_backoff_seconds: float = 1.0
    reconcile_items: int = 500
    intake_lease_seconds: float = 120.0
    intake_clean_seconds: float = 15.0
    registry_look_seconds: float = 2.0
    stop_sweep_seconds: float = 5.0
    stop_swept_seconds: float = 86_400.0
    intake_wait_seconds: float = 10.0
    intake_poll_seconds: float = 0.1
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
    page_items: int = 1_000
    campaigns_looked_through: int = 10_000
    trouble_counted: int = 10_000
    certificate_page_items: int = 5_000
    control_patience_seconds: float = 10.0
    control_attempts: int = 3
    control_backoff_seconds: float = 0.05
    phase_jobs: int = 100_000
    progress_seconds: float = 1.0
    progress_phases: int = 100
    progress_events_kept: int = 20
    replay_events: int = 500
    watcher_events: int = 1_000
    event_poll_seconds: float = 0.25
    bypass_poll_seconds: float = 5.0
    bypass_page: int = 100
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
    projector_seconds: float = 0.5
    projector_runs: int = 100
    projector_page_events: int = 2_000
    projector_delta_events: int = 20_000
    projector_steps_remembered: int = 100_000
    projector_rest_factor: float = 4.0
    projector_lag_alert_seconds: float = 5.0
    snapshots_kept: int = 3
    snapshot_steps: int = 100_000
    worker_beat_seconds: float = 2.0
    worker_silent_seconds: float = 7.0
    """A process that has not written its row for this long is frozen, cut off or dead."""
    worker_forget_seconds: float = 3_600.0
    workers_judged: int = 1_000
    workers_held: int = 10_000
    watcher_seconds: float = 3.0
    watcher_whole_visits: int = 5
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
    metric_runs: int = 1_000
    """A scrape counts the blockers of so many unfinished runs."""
    database_still_down_seconds: float = 60.0
    watcher_notice_seconds: float = 86_400.0
    watcher_subjects: int = 100
    watcher_alerts: int = 1_000
    housekeeper_restart_seconds: float = 5.0
    spool_seconds: float = 2.0
    spool_entries: int = 1_000
    reconcile_runs_seconds: float = 1.0
    reconcile_runs_page: int = 50
    rollout_look_seconds: float = 2.0
    rollouts_page: int = 100
    reconcile_workspaces: int = 1_000
    lost_leases_kept_seconds: float = 3_600.0
    lost_leases_forgotten: int = 1_000
    recovery_jobs: int = 200
    recovery_messages: int = 5_000
    refusals_recorded: int = 60
    refusals_seconds: float = 60.0
    refusals_page_runs: int = 100
    run_lease_seconds: float = 30.0
    router_poll_seconds: float = 1.0
    router_lease_seconds: float = 10.0
    router_events: int = 250
    router_texts: int = 500
    router_bytes: int = 2 * 1024 * 1024
    router_attempts: int = 5
    event_items: int = EVENT_ITEMS_MAX
    policies_remembered: int = 1_000
    policy_remember_seconds: float = 1.0
    digester_seconds: float = 1.0
    digester_digests: int = 50
    digester_lease_seconds: float = 60.0
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
