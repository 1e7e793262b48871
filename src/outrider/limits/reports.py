"""Certificates and figures."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportsLimits:
    """For the kernel's room `reports`."""

    certificate_page_items: int = 5_000
    metric_runs: int = 1_000
    """A scrape counts the blockers of so many unfinished runs."""
