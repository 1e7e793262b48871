"""A reference to an artifact: where its bytes are and the hash that proves them, never the
bytes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from outrider.domain.errors import InvalidInput
from outrider.domain.times import rfc3339

SCHEMES = ("file", "s3", "gs", "az", "azure", "memory")
URI_MAX_CHARACTERS = 2_048
KIND_MAX_CHARACTERS = 200
NAME_MAX_CHARACTERS = 200
FIELDS = frozenset({"uri", "kind", "sha256", "sizeBytes", "expiresAt"})

_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    uri: str
    kind: str
    sha256: str | None = None
    size_bytes: int | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        if wrong := uri_problem(self.uri):
            # The value is not repeated: it may contain a signature left in by mistake.
            raise InvalidInput(f"an artifact's uri {wrong}")
        if not 0 < len(self.kind) <= KIND_MAX_CHARACTERS or not _PRINTABLE.fullmatch(self.kind):
            raise InvalidInput(f"an artifact's kind should have 1-{KIND_MAX_CHARACTERS} characters")
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256):
            raise InvalidInput("an artifact's sha256 should be 64 lower-case hexadecimal digits")
        if self.size_bytes is not None and self.size_bytes < 0:
            raise InvalidInput("an artifact's sizeBytes should not be negative")
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise InvalidInput("an artifact's expiresAt should have a time zone")

    def as_document(self) -> dict[str, object]:
        """As the contract prints it; unknown fields are omitted."""
        known: dict[str, object] = {"uri": self.uri, "kind": self.kind}
        if self.sha256 is not None:
            known["sha256"] = self.sha256
        if self.size_bytes is not None:
            known["sizeBytes"] = self.size_bytes
        if self.expires_at is not None:
            known["expiresAt"] = rfc3339(self.expires_at)
        return known


def artifact_ref(document: Mapping[str, object]) -> ArtifactRef:
    """Parse a document's reference; raises InvalidInput for anything else."""
    if unknown := sorted(set(document) - FIELDS):
        raise InvalidInput(f"an artifact reference has no field {', '.join(unknown)}")
    uri, kind, sha256 = document.get("uri"), document.get("kind"), document.get("sha256")
    size, expires = document.get("sizeBytes"), document.get("expiresAt")
    if not isinstance(uri, str) or not isinstance(kind, str):
        raise InvalidInput("an artifact reference requires the strings uri and kind")
    if not isinstance(sha256, str | None) or not isinstance(expires, str | None):
        raise InvalidInput("an artifact's sha256 and expiresAt should be strings")
    if not isinstance(size, int | None) or isinstance(size, bool):
        raise InvalidInput("an artifact's sizeBytes should be a whole number")
    return ArtifactRef(uri, kind, sha256, size, _time(expires))


def uri_problem(uri: str) -> str | None:
    """Why this is not a reference, as words that follow "uri"."""
    if len(uri) > URI_MAX_CHARACTERS:
        return f"should have at most {URI_MAX_CHARACTERS} characters"
    if not _PRINTABLE.fullmatch(uri):
        return "should have no control characters"
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "is not a URI"
    if parts.scheme not in SCHEMES:
        return f"should begin with {', '.join(f'{scheme}:' for scheme in SCHEMES)}"
    if "?" in uri or "#" in uri:
        return "should have no query or fragment; a signed link is a secret"
    if "@" in parts.netloc:
        return "should have no user name or password"
    if parts.scheme != "file" and not parts.netloc:
        return "should name a bucket or container"
    if not parts.path.strip("/"):
        return "should name an object"
    return None


def refuse_name(part: str) -> None:
    """The name of an artifact or its folder: one path segment that is safe in a URI."""
    wrong = part in ("", ".", "..") or len(part) > NAME_MAX_CHARACTERS
    if wrong or not _PRINTABLE.fullmatch(part) or set(part) & set("/\\?#%"):
        raise InvalidInput(f"{part!r} cannot name an artifact or its folder")


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("an artifact's expiresAt should be a time") from None
    return found.astimezone(UTC) if found.tzinfo else found
