"""Signatures of evidence: by a key that is not in the database."""

from typing import Protocol


class Signer(Protocol):
    @property
    def key_id(self) -> str:
        """Short, and derived from the public key."""
        ...

    @property
    def public_key(self) -> bytes: ...

    def sign(self, message: bytes) -> bytes: ...


class SignatureCheck(Protocol):
    def __call__(self, public_key: bytes, message: bytes, signature: bytes) -> bool: ...
