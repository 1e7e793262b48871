"""Renders windows through one child process, which may die: a window is always answered in full.

A window whose child died is retried item by item with a new child; an item that kills again is the
culprit. A window's deaths are counted, and its time is not reset with each, so that a template bomb
cannot take for ever.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from outrider.domain.errors import OutriderError
from outrider.limits.campaigns import BODY_MAX_BYTES, SUBJECT_MAX_CHARACTERS
from outrider.limits.rendering import (
    RENDER_DEATHS_PER_WINDOW,
    RENDER_FUEL,
    RENDER_ITEM_CPU_SECONDS,
    RENDER_MEMORY_BYTES,
    RENDER_REQUEST_BYTES,
    RENDER_START_SECONDS,
    RENDER_WINDOW_SECONDS,
)
from outrider.ports.renderer import Rendered, RenderProblem
from outrider.rendering import child
from outrider.rendering.child import LENGTH, RenderAnswer, RenderLimits, RenderRequest

LIMITS_EXCEEDED = RenderProblem("rendering exceeded its memory or time limit")
MARKERS = ("{{", "{%", "{#")
CLOSE_SECONDS = 2.0
PYTHON_NEEDS = ("PYTHONHOME", "LD_LIBRARY_PATH")


def default_limits() -> RenderLimits:
    return RenderLimits(
        memory_bytes=RENDER_MEMORY_BYTES,
        cpu_seconds=int(RENDER_WINDOW_SECONDS) + 1,
        item_cpu_seconds=RENDER_ITEM_CPU_SECONDS,
        fuel=RENDER_FUEL,
        body_max_bytes=BODY_MAX_BYTES,
        subject_max_characters=SUBJECT_MAX_CHARACTERS,
    )


def is_template(text: str | None) -> bool:
    return text is not None and any(marker in text for marker in MARKERS)


class ProcessRenderer:
    """One child, started on first use, and one window at a time."""

    def __init__(
        self,
        limits: RenderLimits | None = None,
        *,
        window_seconds: float = RENDER_WINDOW_SECONDS,
        niceness: int = 0,
    ) -> None:
        self._limits = limits or default_limits()
        self._window_seconds = window_seconds
        self._niceness = niceness
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self.deaths = 0
        """How often its child died over a window."""
        self.given_up = 0
        """How many windows were abandoned."""

    @property
    def is_started(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def child_pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the child ahead of the first window, which would otherwise wait for it."""
        async with self._lock:
            if self._process is None:
                await self._start()

    async def render(
        self, subject: str | None, body: str, attributes: Sequence[str], *, html: bool
    ) -> list[Rendered | RenderProblem]:
        if not is_template(subject) and not is_template(body):
            return [plain(self._limits, subject, body)] * len(attributes)
        window = RenderRequest(
            None if subject is None else storable(subject),
            storable(body),
            html,
            [storable(text) for text in attributes],
        )
        async with self._lock:
            return await self._render_window(window)

    async def close(self) -> None:
        async with self._lock:
            process = self._process
            if process is None or process.stdin is None:
                return
            process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await process.wait()
            await self._kill()

    async def _render_window(self, window: RenderRequest) -> list[Rendered | RenderProblem]:
        attributes = window.attributes
        # Answers are about as large as the template and its attributes; many small ones are
        # batched, and large ones never need much of the child's memory at once.
        item_bytes = len(window.body) + max(map(len, attributes), default=0) + 1
        together = max(1, RENDER_REQUEST_BYTES // item_bytes)
        outcomes: list[Rendered | RenderProblem] = []
        alone_until = deaths = 0
        deadline = self._deadline()
        while (done := len(outcomes)) < len(attributes):
            if deaths == RENDER_DEATHS_PER_WINDOW or self._is_over(deadline):
                self.given_up += 1
                return outcomes + [LIMITS_EXCEEDED] * (len(attributes) - done)
            alone = done < alone_until
            asked = attributes[done : done + (1 if alone else together)]
            request = RenderRequest(window.subject, window.body, window.html, asked)
            answer = await self._ask(request, deadline)
            if answer is not None:
                outcomes += _outcomes(answer, len(asked))
                continue
            # The first death may have another cause, so it alone blames no item.
            deaths += 1
            self.deaths += 1
            if deaths == 1:
                deadline = self._deadline()
            if alone:
                outcomes.append(LIMITS_EXCEEDED)
            else:
                alone_until = done + len(asked)
        return outcomes

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._window_seconds

    def _is_over(self, deadline: float) -> bool:
        return asyncio.get_running_loop().time() >= deadline

    async def _ask(self, request: RenderRequest, deadline: float) -> RenderAnswer | None:
        """The child's answer, or None if it died or had to be killed."""
        process = self._process
        if process is None or process.returncode is not None:
            process = await self._start()
        try:
            async with asyncio.timeout_at(deadline):
                return await _converse(process, request)
        except (TimeoutError, EOFError, ConnectionError):
            await self._kill()
            return None
        except BaseException:
            # A cancelled caller leaves half a conversation behind; a new child has none.
            await self._kill()
            raise

    async def _start(self) -> asyncio.subprocess.Process:
        """A child that has proved it answers, so that a later death is evidence against the
        item."""
        process = self._process = await asyncio.create_subprocess_exec(
            *child_command(self._limits),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            limit=RENDER_REQUEST_BYTES,
            # Ctrl-C in a terminal goes to the worker, which then finishes its window.
            start_new_session=True,
        )
        step_back(process.pid, self._niceness)
        try:
            async with asyncio.timeout(RENDER_START_SECONDS):
                await _converse(process, RenderRequest(None, "", html=False, attributes=[]))
        except (TimeoutError, EOFError, ConnectionError) as error:
            await self._kill()
            raise OutriderError(
                "the render process did not start",
                hint=f"run `{sys.executable} -m {child.__name__}` to see why",
            ) from error
        except BaseException:
            await self._kill()
            raise
        return process

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def step_back(pid: int, niceness: int) -> None:
    """Low priority from the very start: loading is half of its work."""
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, niceness)


def plain(limits: RenderLimits, subject: str | None, body: str) -> Rendered | RenderProblem:
    """A text without markers is the same for every recipient."""
    problem = child.text_problem(limits, subject, body)
    return RenderProblem(problem) if problem else Rendered(subject, body)


async def _converse(process: asyncio.subprocess.Process, request: RenderRequest) -> RenderAnswer:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(child.frame(request))
    await process.stdin.drain()
    (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
    return msgspec.msgpack.decode(await process.stdout.readexactly(length), type=RenderAnswer)


def _outcomes(answer: RenderAnswer, asked: int) -> list[Rendered | RenderProblem]:
    if answer.problem is not None:
        return [RenderProblem(answer.problem)] * asked
    assert len(answer.items) == asked
    return [
        RenderProblem(item) if isinstance(item, str) else Rendered(*item) for item in answer.items
    ]


def storable(text: str) -> str:
    """Lone surrogates cannot be encoded; escaped, they are refused for what they are."""
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode()


def child_command(limits: RenderLimits) -> list[str]:
    # -P keeps modules in the working directory out of the child.
    arguments = msgspec.json.encode(limits).decode()
    return [sys.executable, "-P", "-s", "-m", child.__name__, arguments]


def child_environment() -> dict[str, str]:
    """From the worker's environment, which holds its secrets, only what Python needs to start."""
    kept = {name: os.environ[name] for name in PYTHON_NEEDS if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
