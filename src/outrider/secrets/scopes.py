"""Who owns a secret: a reference is resolved only for workspaces the operator assigned it to.

What `[targets."T".workspaces."A/B/C".credentials]` names belongs to that workspace alone; what
`[targets."T".credentials]` names belongs to the default workspace and to those in `shared_with`.
"""

from collections.abc import Mapping, Sequence

from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.ports.secrets import SecretStore, not_given
from outrider.settings import TargetSettings

Owners = Mapping[str, frozenset[str]]
"""For whom each reference may be resolved: names of workspaces, TENANT/* or *."""


class ScopedSecrets:
    """Resolves the references that it is given, and no others."""

    def __init__(self, secrets: SecretStore, owners: Owners) -> None:
        self._secrets = secrets
        self._owners = owners

    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> Mapping[str, str]:
        for reference in references:
            if not workspace.is_among(self._owners.get(reference, ())):
                raise not_given(workspace)
        return self._secrets.resolve(references, workspace)


def owners_of(targets: Mapping[str, TargetSettings]) -> Owners:
    found: dict[str, set[str]] = {}
    for settings in targets.values():
        for reference in settings.credentials.values():
            owners = found.setdefault(reference, set())
            owners.update((str(DEFAULT_WORKSPACE_NAME), *settings.shared_with))
        for name, own in settings.workspaces.items():
            for reference in own.credentials.values():
                found.setdefault(reference, set()).add(name)
    return {reference: frozenset(owners) for reference, owners in found.items()}
