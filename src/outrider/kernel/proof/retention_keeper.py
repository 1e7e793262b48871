"""The retention keeper: retires runs and messages together, on request or by schedule."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from outrider.domain.errors import OutriderError
from outrider.kernel.foundation import Foundation
from outrider.kernel.proof.message_retirer import MessageRetirer, RetiredMessages
from outrider.kernel.proof.person_eraser import PersonEraser
from outrider.kernel.proof.run_retirer import RetiredRuns, RunRetirer
from outrider.limits.proof import RETIRE_LOOK_SECONDS

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Retired:
    before: datetime
    runs: RetiredRuns
    messages: RetiredMessages


class RetentionKeeper:
    def __init__(
        self,
        foundation: Foundation,
        run_retirer: RunRetirer,
        message_retirer: MessageRetirer,
        after: timedelta | None,
        person_eraser: PersonEraser,
    ) -> None:
        """`after`: by schedule, what ended longer ago than this; None: only on request."""
        self._clock = foundation.clock
        self._run_retirer = run_retirer
        self._message_retirer = message_retirer
        self._after = after
        self._person_eraser = person_eraser

    async def retire(self, older_than: timedelta) -> Retired:
        before = self._clock.now() - older_than
        runs = await self._run_retirer.retire(before)
        return Retired(before, runs, await self._message_retirer.retire(before))

    async def count(self, older_than: timedelta) -> Retired:
        """What `retire` would do."""
        before = self._clock.now() - older_than
        messages = RetiredMessages(messages=await self._message_retirer.count(before))
        return Retired(before, await self._run_retirer.count(before), messages)

    async def run(self) -> None:
        """The loop of the role; runs until cancelled. Without a schedule it retires nothing, but
        completes erasures that were interrupted, or had to wait."""
        while True:
            await self._erase()
            if self._after is not None:
                await self._look(self._after)
            await self._clock.sleep(RETIRE_LOOK_SECONDS)

    async def _look(self, after: timedelta) -> None:
        try:
            done = await self.retire(after)
        except OutriderError as error:
            log.warning("nothing_retired", error=error.message)
            return
        if done.runs.runs or done.messages.messages:
            log.info(
                "retired", runs=done.runs.runs, rows=done.runs.rows,
                messages=done.messages.messages, events=done.messages.events,
            )  # fmt: skip

    async def _erase(self) -> None:
        try:
            completed = await self._person_eraser.resume()
        except OutriderError as error:
            log.warning("erasures_not_completed", error=error.message)
            return
        if completed:
            log.info("erasures_completed", erasures=completed)
