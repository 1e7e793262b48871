"""What a call can raise.

OutriderError
├── Refused            the server's answer is an error
│   └── Unauthorised   … because of the key: it is missing, invalid, or has too small a scope
├── Unreachable        no answer, or none that can be understood, after all retries
└── InvalidWebhook     a callback's signature is missing, wrong or too old
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec


class OutriderError(Exception):
    """The root of all errors of this package."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with one field of a request."""

    path: str
    message: str


class Refused(OutriderError):
    """`code` is stable and for programs; the message and the hint are for people."""

    def __init__(self, status: int, error: Mapping[str, Any], request_id: str = "") -> None:
        self.status = status
        self.code = str(error.get("code", f"HTTP_{status}"))
        self.message = str(error.get("message", ""))
        self.hint: str | None = error.get("hint")
        self.problems = [
            Problem(each.get("path", ""), each.get("message", ""))
            for each in error.get("fields") or ()
        ]
        self.details = dict(error)
        self.request_id = request_id
        listed = "".join(f"; {each.path}: {each.message}" for each in self.problems)
        super().__init__(f"{self.code}: {self.message}{listed}")


class Unauthorised(Refused):
    pass


class Unreachable(OutriderError):
    pass


class InvalidWebhook(OutriderError):
    pass


def error_of(status: int, body: bytes) -> OutriderError:
    """The error of an answer that is not a success."""
    try:
        problem = msgspec.json.decode(body, type=dict[str, Any])
        error = problem["error"]
        request_id = str(problem.get("requestId", ""))
        kind = Unauthorised if status in (401, 403) else Refused
        return kind(status, error, request_id)
    except (msgspec.MsgspecError, KeyError, AttributeError):
        return Unreachable(f"the answer, status {status}, is not Outrider's: is the URL right?")
