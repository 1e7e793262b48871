"""The run log's projector and snapshots."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RunsLimits:
    """For the kernel's room `runs`."""

    projector_seconds: float = 0.5
    projector_runs: int = 100
    projector_page_events: int = 2_000
    projector_delta_events: int = 20_000
    projector_steps_remembered: int = 100_000
    projector_rest_factor: float = 4.0
    snapshots_kept: int = 3
    snapshot_steps: int = 100_000
