"""Secrets from the environment or from files: `env:NAME`, `file:PATH`. A value is not a reference.

Nothing is cached: a rotated file is re-read when its gateway is recreated. Other schemes come from
installed distributions; an invalid one prevents the process from starting.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.domain.errors import InvalidInput
from outrider.domain.workspaces import WorkspaceName
from outrider.limits.gateways import SECRET_MAX_BYTES
from outrider.plugins import Installed, installed, with_own_names
from outrider.ports.secrets import GROUP, SecretScheme

SCHEME = "[a-z][a-z0-9_]{1,31}"


class EnvironmentSecrets:
    def resolve(self, name: str) -> str:
        value = os.environ.get(name)
        if not value:
            raise InvalidInput(
                f"the secret env:{name} is not set", hint=f"set the environment variable {name}"
            )
        return value


class FileSecrets:
    def resolve(self, name: str) -> str:
        try:
            with Path(name).open("rb") as file:
                raw = file.read(SECRET_MAX_BYTES + 1)
        except OSError as error:
            raise InvalidInput(
                f"the secret file:{name} cannot be read: {error.strerror}"
            ) from error
        if len(raw) > SECRET_MAX_BYTES:
            raise InvalidInput(f"the secret file:{name} is larger than {SECRET_MAX_BYTES} bytes")
        return raw.decode().strip()


BUILT_IN: Mapping[str, SecretScheme] = {"env": EnvironmentSecrets(), "file": FileSecrets()}


class LocalSecrets:
    """Resolves by the schemes it is given; without any, by the built-in ones."""

    def __init__(self, schemes: Mapping[str, SecretScheme] = BUILT_IN) -> None:
        self._schemes = schemes

    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:
        by_scheme: dict[str, list[str]] = {}
        for reference in dict.fromkeys(references):
            kind, _, name = reference.partition(":")
            by_scheme.setdefault(kind, []).append(name)
        found: dict[str, str] = {}
        for kind, names in by_scheme.items():
            values = self._values(kind, names, workspace)
            for name in names:
                found[f"{kind}:{name}"] = _fit(f"{kind}:{name}", values.get(name))
        return found

    def _values(
        self, kind: str, names: Sequence[str], workspace: WorkspaceName
    ) -> Mapping[str, object]:
        """An installed scheme may return anything."""
        scheme = self._schemes.get(kind)
        if scheme is None:
            # The text is not repeated: it may be the secret itself.
            known = " nor ".join(self._forms())
            raise InvalidInput(
                f"a secret is neither {known}",
                hint="refer to secrets instead of writing them in the settings",
            )
        resolve_all = getattr(scheme, "resolve_all", None)
        try:
            if resolve_all is not None:
                return dict(resolve_all(names, workspace))
            return {name: scheme.resolve(name) for name in names}
        except InvalidInput:
            raise
        except Exception as error:
            asked = ", ".join(f"{kind}:{name}" for name in names)
            raise InvalidInput(
                f"the secret {asked} cannot be resolved: {type(error).__name__}"
            ) from error

    def _forms(self) -> list[str]:
        own = (f"{name}:NAME" for name in self._schemes if name not in BUILT_IN)
        return ["env:NAME", "file:PATH", *own]


def _fit(reference: str, value: object) -> str:
    if not isinstance(value, str) or not value or len(value.encode()) > SECRET_MAX_BYTES:
        raise InvalidInput(f"the secret {reference} should be 1-{SECRET_MAX_BYTES} bytes of text")
    return value


def load_secrets() -> LocalSecrets:
    """With every available scheme; InvalidInput names the distribution at fault."""
    schemes = dict(BUILT_IN)
    for each in with_own_names(installed(GROUP, "scheme of secrets", SCHEME), BUILT_IN):
        schemes[each.name] = _load(each)
    return LocalSecrets(schemes)


def _load(given: Installed) -> SecretScheme:
    with given.made(quotes_errors=False) as made:
        scheme: SecretScheme = made
        whole = callable(scheme.resolve)
    if not whole:
        raise given.refusal("should have the method resolve")
    return scheme
