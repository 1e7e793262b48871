"""Secrets from the environment or from files: `env:NAME`, `file:PATH`. A value is no reference.

Nothing is cached: a rotated file is read anew when its gateway is made anew.
"""

import os
from pathlib import Path

from outrider.domain.errors import InvalidInput
from outrider.settings import SECRET_MAX_BYTES


class LocalSecrets:
    def resolve(self, reference: str) -> str:
        kind, _, name = reference.partition(":")
        match kind:
            case "env":
                value = os.environ.get(name)
                if not value:
                    raise InvalidInput(
                        f"the secret {reference} is not set",
                        hint=f"set the environment variable {name}",
                    )
                return value
            case "file":
                return _from_file(reference, Path(name))
            case _:
                # The text is not repeated: somebody may have put the secret itself here.
                raise InvalidInput(
                    "a secret is neither env:NAME nor file:PATH",
                    hint="refer to secrets, never write them down in settings",
                )


def _from_file(reference: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(SECRET_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"the secret {reference} cannot be read: {error.strerror}") from error
    if len(raw) > SECRET_MAX_BYTES:
        raise InvalidInput(f"the secret {reference} is larger than {SECRET_MAX_BYTES} bytes")
    return raw.decode().strip()
