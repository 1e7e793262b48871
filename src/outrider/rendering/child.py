"""The render process: windows of templates and attributes come in on stdin, texts go out on stdout.

It runs as `python -m outrider.rendering.child LIMITS` under memory and CPU limits it sets itself,
imports nothing else from Outrider to start fast, and ends with its parent, because stdin ends.
"""

import re
import resource
import signal
import struct
import sys
import time
from functools import lru_cache
from typing import Any

import msgspec
from minijinja import Environment, TemplateError

LENGTH = struct.Struct(">I")
"""Every message on the pipes is its length followed by that many bytes of MessagePack."""

TEMPLATES_KEPT = 16
DETAIL_MAX_CHARACTERS = 300


class RenderLimits(msgspec.Struct, frozen=True):
    memory_bytes: int
    cpu_seconds: int
    item_cpu_seconds: float
    fuel: int
    body_max_bytes: int
    subject_max_characters: int


class RenderRequest(msgspec.Struct, array_like=True):
    """One window. Without any attributes it only asks whether the template compiles."""

    subject: str | None
    body: str
    html: bool
    attributes: list[str]


Item = tuple[str | None, str] | str
"""A rendered subject and body, or the detail of a problem."""


class RenderAnswer(msgspec.Struct, array_like=True):
    """The items in order; if the template itself is wrong, only its problem."""

    problem: str | None
    items: list[Item]


class Unprintable(ValueError):
    """A template prints something that no recipient should read."""

    def __init__(self, value: object) -> None:
        super().__init__("null" if value is None else f"a {type(value).__name__}, not a text")
        self.value = value


def frame(message: RenderRequest | RenderAnswer) -> bytes:
    payload = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(payload)) + payload


def printable(value: object) -> object:
    """Text, numbers and booleans are for people; `None` and Python's own spellings are not."""
    if isinstance(value, (str, int, float)):
        return value
    raise Unprintable(value)


def compiled(subject: str | None, body: str, *, html: bool, fuel: int) -> Environment:
    """Both templates in an environment that cannot load others. A subject is never HTML."""
    environment = Environment(
        fuel=fuel,
        undefined_behavior="strict",
        auto_escape_callback=lambda name: html and name == "body",
        finalizer=printable,
        keep_trailing_newline=True,
    )
    environment.remove_global("debug")
    if subject is not None:
        environment.add_template("subject", subject)
    environment.add_template("body", body)
    return environment


def described(error: TemplateError) -> str:
    detail = error.detail or error.message.partition(" (in ")[0]
    return f"line {error.line}: {detail}" if error.line else detail


class WindowRenderer:
    def __init__(self, limits: RenderLimits) -> None:
        self._limits = limits
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode
        self._compiled = lru_cache(maxsize=TEMPLATES_KEPT)(compiled)

    def answer(self, request: RenderRequest) -> RenderAnswer:
        try:
            return self._answer(request)
        finally:
            # What comes after the window is not its last item's fault.
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _answer(self, request: RenderRequest) -> RenderAnswer:
        subject, body = request.subject, request.body
        self._begin_item()
        try:
            environment = self._compiled(subject, body, html=request.html, fuel=self._limits.fuel)
        except TemplateError as error:
            part = error.name or "template"
            return RenderAnswer(f"{part}, {described(error)}"[:DETAIL_MAX_CHARACTERS], [])
        return RenderAnswer(
            None, [self._item(environment, request, text) for text in request.attributes]
        )

    def _begin_item(self) -> None:
        """Using more processor time than this ends the process, by a signal."""
        signal.setitimer(signal.ITIMER_PROF, self._limits.item_cpu_seconds)

    def _item(self, environment: Environment, request: RenderRequest, text: str) -> Item:
        self._begin_item()
        try:
            attributes = self._decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            return f"the attributes are not a JSON object: {error}"
        part, subject = "subject", None
        try:
            if request.subject is not None:
                subject = environment.render_template("subject", **attributes)
            part = "body"
            body = environment.render_template("body", **attributes)
        except MemoryError:
            # The limit is reached: dying lets the parent decide, which retries item by item.
            raise
        except TemplateError as error:
            return f"{part}, {described(error)}"[:DETAIL_MAX_CHARACTERS]
        except Unprintable as error:
            source = request.body if part == "body" else request.subject or ""
            names = _names_of(environment, source, attributes, error.value)
            return f"{part}: {names} is {error}"[:DETAIL_MAX_CHARACTERS]
        except Exception as error:
            # Methods of lists and dicts raise arbitrary Python errors.
            return f"{part}: {type(error).__name__}: {error}"[:DETAIL_MAX_CHARACTERS]
        return text_problem(self._limits, subject, body) or (subject, body)


def text_problem(limits: RenderLimits, subject: str | None, body: str) -> str | None:
    """Characters that no provider accepts, and line breaks that would forge a header."""
    if len(body) > limits.body_max_bytes or len(body.encode()) > limits.body_max_bytes:
        return f"the body is larger than {limits.body_max_bytes} bytes"
    if subject is None:
        return None
    if len(subject) > limits.subject_max_characters:
        return f"the subject is longer than {limits.subject_max_characters} characters"
    if re.search(r"[\x00\r\n]", subject):
        return "the subject contains a line break or NUL"
    return None


def _names_of(
    environment: Environment, source: str, attributes: dict[str, Any], value: object
) -> str:
    """A best guess at the template variables that hold this very value."""
    names = []
    for path in environment.undeclared_variables_in_str(source, nested=True):
        found: Any = attributes
        for step in path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
        if found is value:
            names.append(f"`{path}`")
    return ", ".join(sorted(names)) or "a printed value"


def _restrict(limits: RenderLimits) -> None:
    """A memory limit, no file writes, and no core dump with personal data in it."""
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _allow_cpu(seconds: int) -> None:
    """A child whose parent died in the middle of a window must not spin for ever."""
    spent = int(time.process_time())
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds + 1, hard))


def main() -> None:
    limits = msgspec.json.decode(sys.argv[1], type=RenderLimits)
    _restrict(limits)
    renderer = WindowRenderer(limits)
    decoder = msgspec.msgpack.Decoder(RenderRequest)
    while length := sys.stdin.buffer.read(LENGTH.size):
        _allow_cpu(limits.cpu_seconds)
        request = decoder.decode(sys.stdin.buffer.read(*LENGTH.unpack(length)))
        sys.stdout.buffer.write(frame(renderer.answer(request)))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
