"""The registry and its contracts."""

from dataclasses import dataclass

CONTRACTS_REMEMBERED_MAX = 1_000


@dataclass(frozen=True)
class ContractsLimits:
    """For the kernel's room `contracts`."""

    registry_look_seconds: float = 2.0
