"""The Ed25519 key that signs evidence: the operator's, or a file on this machine.

It is never in the database: whoever can write all tables still cannot sign. The first process that
needs it creates the file, readable by its owner only; later ones read it.
"""

import contextlib
import hashlib
import os
import secrets
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from outrider.domain.errors import InvalidInput
from outrider.files.private_files import new_private_file, private_folder
from outrider.ports.secrets import SecretStore, own_secret

FILE_NAME = "evidence-key"
KEY_BYTES = 32
_OTHERS = 0o077


def key_id_of(public_key: bytes) -> str:
    return hashlib.sha256(public_key).hexdigest()[:16]


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class EvidenceKey:
    def __init__(self, reference: str | None, secret_store: SecretStore, folder: Path) -> None:
        """`reference` is an operator's own key, 64 hex digits; without one it is the file in the
        folder."""
        self._reference = reference
        self._secret_store = secret_store
        self._path = folder / FILE_NAME

    @property
    def key_id(self) -> str:
        return key_id_of(self.public_key)

    @property
    def public_key(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def create(self) -> None:
        """A new key takes the place of the file's; what the former one signed stays valid."""
        if self._reference is not None:
            raise InvalidInput(
                "the evidence key is set by OUTRIDER_EVIDENCE_KEY",
                hint="change the secret that it refers to",
            )
        self._make(replace=True)
        self.__dict__.pop("_private", None)

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(
            self._from_file() if self._reference is None else self._given(self._reference)
        )

    def _given(self, reference: str) -> bytes:
        try:
            key = bytes.fromhex(own_secret(self._secret_store, reference))
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise InvalidInput(
                "the evidence key is not 64 hex digits",
                hint="`openssl rand -hex 32` creates a good one",
            )
        return key

    def _from_file(self) -> bytes:
        try:
            if not self._path.exists():
                self._make()
            if self._path.stat().st_mode & _OTHERS:
                raise InvalidInput(
                    f"other users can read the evidence key {self._path}",
                    hint=f"run: chmod 600 {self._path}; if it was read, create another key",
                )
            made = self._path.read_bytes()
        except OSError as error:
            raise InvalidInput(
                f"the evidence key {self._path} cannot be read or created: {error.strerror}",
                hint="set OUTRIDER_EVIDENCE_KEY, or set OUTRIDER_SPOOL to a private folder",
            ) from error
        if len(made) != KEY_BYTES:
            raise InvalidInput(f"{self._path} is not an evidence key")
        return made

    def _make(self, *, replace: bool = False) -> None:
        """Atomic: there is never half a key, and of two processes that need one the first wins."""
        private_folder(self._path.parent)
        beside = self._path.with_name(f".{FILE_NAME}.{secrets.token_hex(8)}")
        try:
            with new_private_file(beside) as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            if replace:
                beside.replace(self._path)
                return
            with contextlib.suppress(FileExistsError):
                os.link(beside, self._path)
        finally:
            beside.unlink(missing_ok=True)
