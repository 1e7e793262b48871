"""Secrets are references everywhere; only whoever makes a gateway or a sink asks for a value."""

from collections.abc import Set
from importlib.metadata import entry_points
from typing import Final, Protocol

from outrider.domain.references import BUILT_IN_SCHEMES

GROUP: Final = "outrider.secrets"
"""The entry points under which installed distributions register schemes of their own."""


class SecretStore(Protocol):
    def resolve(self, reference: str) -> str:
        """The value behind `scheme:name`; InvalidInput says what cannot be resolved."""
        ...


class SecretScheme(Protocol):
    """One kind of reference. What it raises is told by its type only, lest it hold the secret."""

    def resolve(self, name: str) -> str:
        """The value behind what stands after the scheme's colon."""
        ...


def known_schemes() -> Set[str]:
    """What a reference may begin with here. Nothing is loaded to find out."""
    return BUILT_IN_SCHEMES | {entry.name for entry in entry_points(group=GROUP)}
