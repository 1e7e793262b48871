"""Secrets are references everywhere; only whoever makes a gateway or a sink asks for a value."""

from collections.abc import Mapping, Sequence, Set
from importlib.metadata import entry_points
from typing import Final, Protocol

from outrider.domain.errors import InvalidInput
from outrider.domain.references import BUILT_IN_SCHEMES
from outrider.domain.workspaces import OPERATOR, WorkspaceName

GROUP: Final = "outrider.secrets"
"""The entry points under which installed distributions register schemes of their own."""


class SecretStore(Protocol):
    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> Mapping[str, str]:
        """The values behind these `scheme:name`, all of them or none, for this workspace.

        InvalidInput says what cannot be resolved, or is not the workspace's.
        """
        ...


def not_given(workspace: WorkspaceName) -> InvalidInput:
    """Whose it is instead, and whether there is such a secret, is nobody's business."""
    return InvalidInput(
        f"a requested secret does not belong to the workspace {workspace}",
        hint=f'give it one in [targets."T".workspaces."{workspace}".credentials], or share the'
        " target's with shared_with",
    )


def own_secret(secrets: SecretStore, reference: str) -> str:
    """What a process needs for itself, whatever workspaces there are."""
    return secrets.resolve([reference], OPERATOR)[reference]


class SecretScheme(Protocol):
    """One kind of reference. What it raises is told by its type only, lest it hold the secret.

    A scheme that also has `resolve_all(names, workspace)`, a mapping of each name to its value, is
    asked that instead: once for all names, and told for whom.
    """

    def resolve(self, name: str) -> str:
        """The value behind what stands after the scheme's colon."""
        ...


def known_schemes() -> Set[str]:
    """What a reference may begin with here. Nothing is loaded to find out."""
    return BUILT_IN_SCHEMES | {entry.name for entry in entry_points(group=GROUP)}
