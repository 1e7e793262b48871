"""References to secrets, and the guard that keeps values out of where references belong.

A reference is a scheme, a colon and a name: `env:SMS_TOKEN`. A refused value is never repeated,
because it may be the secret itself.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from outrider.domain.errors import InvalidInput, Problem

BUILT_IN_SCHEMES: Final = frozenset({"env", "file"})

SHOWN_MAX = 20

_NAMES = {
    "env": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
    "file": re.compile(r"[^\x00-\x1f]+"),
}
_ANY_NAME = re.compile(r"[\x21-\x7e]+")

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    {
        "password", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "credential",
        "credentials", "authorization", "authorisation", "apikey", "cookie",
    }
)  # fmt: skip
_SECRET_KEYS = frozenset(
    {"api", "access", "dkim", "private", "secret", "signing", "encryption", "root"}
)
_ADDRESSES = frozenset({"push token", "device token", "registration token"})
"""Where a message goes is not a secret."""

_SECRET_TEXTS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s@]*:[^/?#\s@]+@", re.IGNORECASE),
    re.compile(r"(?:bearer|basic)\s+[\w+/.~-]{8,}=*\s*\Z", re.IGNORECASE),
)


def is_reference(text: str, schemes: Collection[str] = BUILT_IN_SCHEMES) -> bool:
    scheme, colon, name = text.partition(":")
    if not colon or scheme not in schemes:
        return False
    return _NAMES.get(scheme, _ANY_NAME).fullmatch(name) is not None


def names_a_secret(key: str) -> bool:
    """Whether a field of this name would hold a secret: `password`, `authToken`, `API_KEY`."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or " ".join(words[-2:]) in _ADDRESSES:
        return False
    if words[-1] in _SECRET_WORDS:
        return True
    return len(words) > 1 and words[-1] in ("key", "keys") and words[-2] in _SECRET_KEYS


def refuse_secrets(
    document: object, what: str, schemes: Collection[str] = BUILT_IN_SCHEMES
) -> None:
    """Raise InvalidInput where the document holds a secret's value instead of its reference.

    `what` names the document in the refusal: "the plan of the phase 'x'".
    """
    problems = []
    for path, message in _secrets(document, "", False, schemes):
        problems.append(Problem(path, message))
        if len(problems) == SHOWN_MAX:
            break
    if problems:
        raise InvalidInput(
            f"{what} contains a secret: {problems[0]}",
            problems,
            hint="refer to secrets as env:NAME or file:PATH instead of writing them down",
        )


def _secrets(
    found: object, path: str, secret: bool, schemes: Collection[str]
) -> Iterator[tuple[str, str]]:
    match found:
        case str():
            if secret and not is_reference(found, schemes):
                yield path, "should be a reference to a secret"
            elif not secret and any(pattern.match(found) for pattern in _SECRET_TEXTS):
                yield path, "looks like a secret"
        case Mapping():
            for key, value in found.items():
                inside = f"{path}.{key}" if path else str(key)
                named = secret or names_a_secret(str(key))
                yield from _secrets(value, inside, named, schemes)
        case Sequence():
            for index, value in enumerate(found):
                yield from _secrets(value, f"{path}[{index}]", secret, schemes)
        case None:
            pass
        case _:
            if secret:
                yield path, "should be a reference to a secret"
