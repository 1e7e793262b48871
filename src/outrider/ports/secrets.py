"""Secrets are references everywhere; only the code that makes a gateway or a sink resolves one."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from outrider.domain.errors import InvalidInput
from outrider.domain.workspaces import OPERATOR, WorkspaceName

GROUP: Final = "outrider.secrets"
"""The entry points under which installed distributions register their own schemes."""


class SecretStore(Protocol):
    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> Mapping[str, str]:
        """The values behind these `scheme:name`, all of them or none, for this workspace.

        InvalidInput says what cannot be resolved, or does not belong to the workspace.
        """
        ...


def not_given(workspace: WorkspaceName) -> InvalidInput:
    """Does not reveal who owns it, or whether such a secret exists."""
    return InvalidInput(
        f"a requested secret does not belong to the workspace {workspace}",
        hint=f'give it one in [targets."T".workspaces."{workspace}".credentials], or share the'
        " target's with shared_with",
    )


def own_secret(secrets: SecretStore, reference: str) -> str:
    """What the process itself needs, independent of workspaces."""
    return secrets.resolve([reference], OPERATOR)[reference]


class SecretScheme(Protocol):
    """One kind of reference. Only the type of its exceptions is reported: the text may contain the
    secret.

    A scheme that also has `resolve_all(names, workspace)`, a mapping of each name to its value, is
    called with that instead: once for all names, with the workspace.
    """

    def resolve(self, name: str) -> str:
        """The value of the part after the scheme's colon."""
        ...
