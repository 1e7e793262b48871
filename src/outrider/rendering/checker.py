"""Checks templates' syntax: short ones here, long ones in a child that is kept for reuse.

Compiling recurses, so a long enough expression overflows the compiler's stack: if the child dies of
a template, that is reported as the template's mistake.
"""

import subprocess
from types import TracebackType
from typing import Self

import msgspec
from minijinja import TemplateError

from outrider.limits.rendering import RENDER_CHECK_HERE_MAX_CHARACTERS, RENDER_FUEL
from outrider.rendering import child
from outrider.rendering.child import LENGTH, RenderAnswer, RenderRequest
from outrider.rendering.renderer import (
    child_command,
    child_environment,
    default_limits,
    is_template,
    storable,
)

TOO_DEEP = "is too long or too deeply nested to compile"


class TemplateChecker:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def check(self, source: str) -> str | None:
        """What is wrong with the template's syntax, or None. Nothing is rendered."""
        if not is_template(source):
            return None
        if len(source) > RENDER_CHECK_HERE_MAX_CHARACTERS:
            return self._check_elsewhere(source)
        try:
            child.compiled(None, storable(source), html=False, fuel=RENDER_FUEL)
        except TemplateError as error:
            return child.described(error)
        return None

    def _check_elsewhere(self, source: str) -> str | None:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(
                child.frame(RenderRequest(None, storable(source), html=False, attributes=[]))
            )
            process.stdin.flush()
            # A child ends itself once it has used too much processor time.
            length = process.stdout.read(LENGTH.size)
        except ConnectionError:
            length = b""
        if len(length) < LENGTH.size:
            self._end()
            return TOO_DEEP
        answered = process.stdout.read(*LENGTH.unpack(length))
        problem = msgspec.msgpack.decode(answered, type=RenderAnswer).problem
        return problem and problem.removeprefix("body, ")

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            child_command(default_limits()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
        )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:
                pass


def check_template(source: str) -> str | None:
    """For a caller with a single template to check."""
    with TemplateChecker() as checker:
        return checker.check(source)
