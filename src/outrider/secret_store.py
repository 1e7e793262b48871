"""Secrets from the environment or from files: `env:NAME`, `file:PATH`. A value is no reference.

Nothing is cached: a rotated file is read anew when its gateway is made anew. Other schemes come
from installed distributions; one that is not what it should be stops the start of the process.
"""

import os
import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from outrider.domain.errors import InvalidInput
from outrider.ports.secrets import GROUP, SecretScheme
from outrider.settings import SECRET_MAX_BYTES

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
    """Resolves by the schemes it is given; without any, by those that are built in."""

    def __init__(self, schemes: Mapping[str, SecretScheme] = BUILT_IN) -> None:
        self._schemes = schemes

    def resolve(self, reference: str) -> str:
        kind, _, name = reference.partition(":")
        scheme = self._schemes.get(kind)
        if scheme is None:
            # The text is not repeated: somebody may have put the secret itself here.
            known = " nor ".join(self._forms())
            raise InvalidInput(
                f"a secret is neither {known}",
                hint="refer to secrets, never write them down in settings",
            )
        try:
            # An installed scheme may return anything.
            value: object = scheme.resolve(name)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(
                f"the secret {reference} cannot be resolved: {type(error).__name__}"
            ) from error
        if not isinstance(value, str) or not value or len(value.encode()) > SECRET_MAX_BYTES:
            raise InvalidInput(
                f"the secret {reference} should be a text of 1-{SECRET_MAX_BYTES} bytes"
            )
        return value

    def _forms(self) -> list[str]:
        own = (f"{name}:NAME" for name in self._schemes if name not in BUILT_IN)
        return ["env:NAME", "file:PATH", *own]


def load_secrets() -> LocalSecrets:
    """With every scheme there is; InvalidInput names the distribution that is wrong."""
    schemes = dict(BUILT_IN)
    givers = dict.fromkeys(schemes, "Outrider itself")
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _giver(entry))):
        if re.fullmatch(SCHEME, entry.name) is None:
            raise _refusal(entry, f"should have a name that matches {SCHEME}")
        if entry.name in givers:
            raise _refusal(entry, f"has a name that is taken by {givers[entry.name]}")
        schemes[entry.name] = _load(entry)
        givers[entry.name] = _giver(entry)
    return LocalSecrets(schemes)


def _load(entry: EntryPoint) -> SecretScheme:
    try:
        scheme: SecretScheme = entry.load()()
        whole = callable(scheme.resolve)
    except Exception as error:
        raise _refusal(entry, f"cannot be loaded: {type(error).__name__}") from error
    if not whole:
        raise _refusal(entry, "should have the method resolve")
    return scheme


def _giver(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"


def _refusal(entry: EntryPoint, why: str) -> InvalidInput:
    return InvalidInput(
        f"the scheme of secrets '{entry.name}' of {_giver(entry)} {why}",
        hint=f"correct or uninstall the distribution; it registers {entry.value}",
    )
