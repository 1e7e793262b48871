"""Every error Outrider raises on purpose. Outcomes of sending are values, never exceptions.

OutriderError
├── InvalidInput            somebody's document or argument is wrong; carries every problem at once
├── NotFound                the named object does not exist in this workspace
├── Conflict                the object is not in a state that allows this
│   └── IdempotencyConflict the same id was used before for something else
├── InvalidTransition       a state machine refused a trigger
└── StoreError
    ├── StoreUnavailable    the database cannot be reached or dropped us; trying again may help
    ├── StoreRefused        the database refused a statement by a constraint or a trigger
    └── SchemaMismatch      the schema is missing, older, newer or was edited
"""

from dataclasses import dataclass


class OutriderError(Exception):
    """The root: `code` is for machines, the message is for people, `hint` says what to do next."""

    code = "OUTRIDER_ERROR"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a document: where it is and what is wrong with it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidInput(OutriderError):
    code = "INVALID_REQUEST"

    def __init__(
        self, message: str, problems: list[Problem] | None = None, *, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems or []


class NotFound(OutriderError):
    code = "NOT_FOUND"


class Conflict(OutriderError):
    code = "CONFLICT"


class IdempotencyConflict(Conflict):
    code = "IDEMPOTENCY_CONFLICT"


class InvalidTransition(OutriderError):
    code = "INVALID_TRANSITION"

    def __init__(self, machine: str, state: str, trigger: str) -> None:
        super().__init__(f"a {machine} that is '{state}' cannot {trigger}")
        self.machine, self.state, self.trigger = machine, state, trigger


class StoreError(OutriderError):
    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class StoreRefused(StoreError):
    code = "STORE_REFUSED"


class SchemaMismatch(StoreError):
    code = "SCHEMA_MISMATCH"
