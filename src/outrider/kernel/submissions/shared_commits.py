"""Shared commits: requests that arrive during a commit share the next one.

No request waits for others: when it is quiet, a request is written at once, and the busier it gets,
the more requests share a commit. A second commit beside the first starts only when enough requests
are waiting. Each request returns when it is durable.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar, cast

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import Scope

Given = TypeVar("Given")
Answer = TypeVar("Answer")


class SharedCommits(Generic[Given, Answer]):
    def __init__(
        self,
        commit: Callable[[Scope, Sequence[Given]], Awaitable[Sequence[Answer]]],
        most_items: int,
        *,
        at_once: int = 1,
        company_items: int = 1,
    ) -> None:
        self._commit = commit
        self._most_items = most_items
        self._at_once = at_once
        self._company_items = company_items
        self._waiting: dict[Scope, list[tuple[Given, asyncio.Future[Answer]]]] = {}
        self._writing: dict[Scope, set[asyncio.Task[None]]] = {}

    async def put(self, scope: Scope, given: Given) -> Answer:
        """The answer to this request. A caller that stops waiting may still have had it written."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(scope, [])
        waiting.append((given, answer))
        writing = self._writing.setdefault(scope, set())
        if not writing or (len(writing) < self._at_once and len(waiting) >= self._company_items):
            # Not in the name of the one request that happened to be the first.
            writing.add(asyncio.create_task(self._write(scope), context=Context()))
        return await answer

    async def _write(self, scope: Scope) -> None:
        try:
            while waiting := self._waiting.pop(scope, None):
                batch, rest = waiting[: self._most_items], waiting[self._most_items :]
                if rest:
                    self._waiting[scope] = rest
                await self._answered(scope, batch)
        finally:
            writing = self._writing[scope]
            writing.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            if not writing:
                del self._writing[scope]

    async def _answered(
        self, scope: Scope, batch: Sequence[tuple[Given, asyncio.Future[Answer]]]
    ) -> None:
        try:
            answers = await self._commit(scope, [given for given, _ in batch])
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, StoreUnavailable):
                # One of them is to blame, and the others are not.
                for each in batch:
                    await self._answered(scope, [each])
                return
            for _, waiter in batch:
                if not waiter.done():
                    waiter.set_exception(error)
            return
        except asyncio.CancelledError:
            # Cancelled with its process: nobody should wait for an answer that cannot come.
            for _, waiter in [*batch, *self._waiting.pop(scope, [])]:
                waiter.cancel()
            raise
        for (_, waiter), answer in zip(batch, answers, strict=True):
            if not waiter.done():
                waiter.set_result(answer)
