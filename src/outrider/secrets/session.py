"""The secret that signs sessions: the operator's, or a file on this machine.

It is never in the database, whose readers could otherwise sign themselves in. The first process
that needs it creates the file, readable by its owner only; later ones read it.
"""

import contextlib
import hmac
import os
import secrets
from pathlib import Path

from outrider.domain.errors import InvalidInput
from outrider.domain.sessions import SECRET_BYTES
from outrider.files.private_files import new_private_file, private_folder
from outrider.ports.secrets import SecretStore, own_secret

FILE_NAME = "session-secret"
MIN_CHARACTERS = 16
_PURPOSE = b"outrider sessions"
_OTHERS = 0o077


class SessionSecret:
    def __init__(self, reference: str | None, secret_store: SecretStore, folder: Path) -> None:
        """`reference` is an operator's own secret; without one it is the file in the folder."""
        self._reference = reference
        self._secret_store = secret_store
        self._path = folder / FILE_NAME

    def read(self) -> bytes:
        if self._reference is None:
            return self._from_file()
        given = own_secret(self._secret_store, self._reference)
        if len(given) < MIN_CHARACTERS:
            raise InvalidInput(
                f"the session secret has fewer than {MIN_CHARACTERS} characters",
                hint="`openssl rand -hex 32` creates a good one",
            )
        return hmac.digest(given.encode(), _PURPOSE, "sha256")

    def _from_file(self) -> bytes:
        try:
            if not self._path.exists():
                self._make()
            self._require_own()
            made = self._path.read_bytes()
        except OSError as error:
            raise InvalidInput(
                f"the session secret {self._path} cannot be read or created: {error.strerror}",
                hint="set OUTRIDER_SESSION_SECRET, or set OUTRIDER_SPOOL to a private folder",
            ) from error
        if len(made) != SECRET_BYTES:
            raise InvalidInput(
                f"{self._path} is not a session secret",
                hint="remove it: a new one is created, and everyone has to sign in again",
            )
        return made

    def _make(self) -> None:
        """Atomic: of two concurrent writers the first one wins."""
        private_folder(self._path.parent)
        beside = self._path.with_name(f".{FILE_NAME}.{secrets.token_hex(8)}")
        try:
            with new_private_file(beside) as file:
                file.write(secrets.token_bytes(SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(beside, self._path)
        finally:
            beside.unlink(missing_ok=True)

    def _require_own(self) -> None:
        if self._path.stat().st_mode & _OTHERS:
            raise InvalidInput(
                f"other users can read the session secret {self._path}",
                hint=f"remove it so that a new one is created, or run: chmod 600 {self._path}",
            )
