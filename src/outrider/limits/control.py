"""Phases, runs, intakes of audiences, refusals, and the repair of what was changed by hand."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ControlLimits:
    """For the kernel's room `control`."""

    suspension_poll_seconds: float = 0.01
    beside_lanes_recipients: int = 250
    """The same for a window of recipients that are being imported."""
    repoint_jobs: int = 20
    """In one transaction, with all of their rows."""
    intake_lease_seconds: float = 120.0
    intake_clean_seconds: float = 15.0
    stop_sweep_seconds: float = 5.0
    stop_swept_seconds: float = 86_400.0
    intake_wait_seconds: float = 10.0
    intake_poll_seconds: float = 0.1
    control_patience_seconds: float = 10.0
    control_attempts: int = 3
    control_backoff_seconds: float = 0.05
    phase_jobs: int = 100_000
    bypass_poll_seconds: float = 5.0
    bypass_page: int = 100
    reconcile_runs_seconds: float = 1.0
    reconcile_runs_page: int = 50
    rollout_look_seconds: float = 2.0
    rollouts_page: int = 100
    winner_look_seconds: float = 60.0
    reconcile_workspaces: int = 1_000
    lost_leases_kept_seconds: float = 3_600.0
    lost_leases_forgotten: int = 1_000
    refusals_recorded: int = 60
    refusals_seconds: float = 60.0
    refusals_page_runs: int = 100
    run_lease_seconds: float = 30.0
