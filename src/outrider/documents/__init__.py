"""User input becomes domain values, or every problem of the document at once.

Bytes go in through `load_json`, which refuses what JSON parsers usually accept; `Problems` collects
a document's mistakes with their paths, to be raised together at the end.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from outrider.domain.errors import InvalidInput, Problem
from outrider.limits.campaigns import PROBLEMS_SHOWN_MAX

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SUSPECT = re.compile(rb"\\u(0000|[dD][89a-fA-F])|\x00|\xed[\xa0-\xbf]")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


class Document(BaseModel):
    """A JSON object in camelCase whose every field is known and of exactly its type."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        hide_input_in_errors=True,
    )


class Problems:
    """The mistakes found so far. All are counted, the first ones are kept to be shown."""

    def __init__(self, document: str) -> None:
        self._document = document
        self._shown: list[Problem] = []
        self._count = 0

    def add(self, path: str, message: str) -> None:
        self._count += 1
        if not self.full:
            self._shown.append(Problem(path, message))

    def add_all(self, error: ValidationError, at: Sequence[str | int] = ()) -> None:
        """`at` is the path in the document of the validated part."""
        for detail in error.errors(include_url=False, include_input=False):
            location = detail["loc"]
            if detail["type"] != "extra_forbidden":
                # Pydantic names a missing field as Python does, not as users write it.
                location = tuple(to_camel(s) if isinstance(s, str) else s for s in location)
            self.add(json_path((*at, *location)), _in_our_words(detail))

    @property
    def full(self) -> bool:
        return len(self._shown) == PROBLEMS_SHOWN_MAX

    def __bool__(self) -> bool:
        return self._count > 0

    def error(self) -> InvalidInput:
        many = f"{self._count} problems" if self._count > 1 else "a problem"
        rest = self._count - len(self._shown)
        more = f"; the first {len(self._shown)} are shown, {rest} more are not" if rest else ""
        return InvalidInput(f"the {self._document} has {many}{more}", self._shown)


def twice(names: Iterable[str]) -> list[str]:
    """Those that occur more than once, however many there are."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def load_json(raw: bytes, problems: Problems) -> object:
    """The JSON value; duplicate fields are noted in `problems`. Raises for what is not JSON."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            for name in twice(name for name, _ in pairs):
                problems.add("", f"the field {name!r} is given twice in one object")
        return fields

    try:
        return json.loads(
            raw.decode("utf-8-sig"),
            object_pairs_hook=unique,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except json.JSONDecodeError as error:
        problems.add(f"line {error.lineno}, column {error.colno}", f"is not JSON: {error.msg}")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.add(f"line {line}", "is not UTF-8 text")
    except RecursionError:
        problems.add("", "is nested too deeply")
    except ValueError as error:
        problems.add("", str(error))
    raise problems.error()


def strict_json(raw: bytes) -> object:
    """No duplicate field, no NaN, no NUL, no lone surrogates, not too deep; or every problem."""
    problems = Problems("body")
    given = load_json(raw, problems)
    if _SUSPECT.search(raw) and _holds_unstorable(given):
        problems.add("", "must not contain NUL or broken Unicode")
    if problems:
        raise problems.error()
    return given


def _holds_unstorable(value: Any) -> bool:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            if _UNSTORABLE.search(each):
                return True
        elif isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, list):
            left += each
    return False


def json_path(location: Sequence[str | int]) -> str:
    """`("messages", 0, "body")` as users write it: `messages[0].body`."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".")


def one_line(text: str) -> str:
    """For headers, keys and lists: no line break that could forge a second one."""
    if _UNPRINTABLE.search(text):
        raise ValueError("must not contain line breaks, control characters or broken Unicode")
    return text


def storable(text: str) -> str:
    """No NUL or lone surrogate, which no database stores and no provider accepts."""
    if _UNSTORABLE.search(text):
        raise ValueError("must not contain NUL or broken Unicode")
    return text


def key_field(text: str) -> str:
    """Part of an idempotency key, so it must not contain the separator."""
    if "|" in text:
        raise ValueError("must not contain '|'")
    return one_line(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a number that JSON can hold")
    return number


def _in_our_words(detail: Any) -> str:
    match detail["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not a known field"
        case "model_type":
            return "should be an object"
        case "value_error":
            return str(detail["ctx"]["error"])
        case _:
            message: str = detail["msg"]
            return message.replace("Input should", "should")
