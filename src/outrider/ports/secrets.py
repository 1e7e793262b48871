"""Secrets are references everywhere; only whoever makes a gateway asks for a value."""

from typing import Protocol


class SecretStore(Protocol):
    def resolve(self, reference: str) -> str:
        """The value behind `env:NAME` or `file:PATH`; InvalidInput says what cannot be resolved."""
        ...
