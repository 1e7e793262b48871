"""Render processes for many workspaces: each has one at a time, and waits only for itself.

A workspace whose templates killed a process moves to one that only such workspaces share, and a
template that made a window fail is refused for a while without being tried again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from cachetools import TTLCache

from outrider.domain.errors import OutriderError
from outrider.domain.ids import Scope
from outrider.kernel.access.fair_turns import FairTurns
from outrider.limits.rendering import (
    RENDER_CHILDREN,
    RENDER_GUILTY_MAX,
    RENDER_SLOW_NICENESS,
    RENDER_SLOW_SECONDS,
    RENDER_WINDOW_SECONDS,
)
from outrider.ports.renderer import Rendered, RenderProblem
from outrider.rendering.child import RenderLimits
from outrider.rendering.renderer import (
    LIMITS_EXCEEDED,
    ProcessRenderer,
    default_limits,
    is_template,
    plain,
)


class RenderPool:
    def __init__(
        self,
        limits: RenderLimits | None = None,
        *,
        window_seconds: float = RENDER_WINDOW_SECONDS,
        waiting: int | None = None,
    ) -> None:
        """`waiting`: how many windows of one workspace may queue."""
        self._limits = limits or default_limits()
        self._slow_child = ProcessRenderer(
            self._limits, window_seconds=window_seconds, niceness=RENDER_SLOW_NICENESS
        )
        self._slow_turns = FairTurns("texts to render", 1, 1, waiting)
        self._children = [
            ProcessRenderer(self._limits, window_seconds=window_seconds)
            for _ in range(RENDER_CHILDREN)
        ]
        self._turns = FairTurns("texts to render", RENDER_CHILDREN, 1, waiting)
        self._idle = list(self._children)
        self._slow: TTLCache[Scope, None] = TTLCache(RENDER_GUILTY_MAX, RENDER_SLOW_SECONDS)
        self._guilty: TTLCache[int, None] = TTLCache(RENDER_GUILTY_MAX, RENDER_SLOW_SECONDS)
        self._warming: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start a child ahead of the first window, which would otherwise wait for it."""
        await self._idle[-1].start()

    async def render(
        self, scope: Scope, subject: str | None, body: str, attributes: Sequence[str], *, html: bool
    ) -> list[Rendered | RenderProblem]:
        if not is_template(subject) and not is_template(body):
            return [plain(self._limits, subject, body)] * len(attributes)
        if scope not in self._slow:
            async with self._turns.turn(scope):
                # The previous turn may have put the workspace into quarantine.
                if scope not in self._slow:
                    child = self._take()
                    try:
                        return await self._judged(child, scope, subject, body, attributes, html)
                    finally:
                        self._idle.append(child)
                        if not child.is_started:
                            # It died of this window: the next one should not wait for its start.
                            self._warm()
        async with self._slow_turns.turn(scope):
            return await self._judged(self._slow_child, scope, subject, body, attributes, html)

    def _take(self) -> ProcessRenderer:
        """A started one, if there is one; and another is started for the next caller."""
        child = next((each for each in self._idle if each.is_started), self._idle[-1])
        self._idle.remove(child)
        if not any(each.is_started for each in self._idle):
            self._warm()
        return child

    def _warm(self) -> None:
        if self._idle and (self._warming is None or self._warming.done()):
            self._warming = asyncio.create_task(_started(self._idle[-1]))

    async def close(self) -> None:
        if self._warming is not None:
            await self._warming
        for child in (*self._children, self._slow_child):
            await child.close()

    async def _judged(
        self,
        child: ProcessRenderer,
        scope: Scope,
        subject: str | None,
        body: str,
        attributes: Sequence[str],
        html: bool,
    ) -> list[Rendered | RenderProblem]:
        # Hashes: the texts themselves would take too much memory.
        template = hash((scope, subject, body))
        if template in self._guilty:
            return [LIMITS_EXCEEDED] * len(attributes)
        deaths, given_up = child.deaths, child.given_up
        outcomes = await child.render(subject, body, attributes, html=html)
        # The first death may have another cause.
        if child.deaths > deaths + 1:
            self._slow[scope] = None
        if child.given_up > given_up:
            self._guilty[template] = None
        return outcomes


async def _started(child: ProcessRenderer) -> None:
    # If it cannot be started, the caller that needs it gets the error.
    with suppress(OutriderError):
        await child.start()
