"""Reads documents off the event loop: small ones in a thread, others in a separate process.

Each workspace has one document at a time, and only a few are read at once: a server's memory for
them is bounded, and no workspace waits long behind another's.
"""

import asyncio
import pickle
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from outrider.documents.provider_export import ExportSummary
from outrider.documents.workflow import WorkflowFile
from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.errors import OutriderError
from outrider.domain.ids import Scope
from outrider.domain.provider_exports import ExportField, ExportRow
from outrider.domain.recipients import Recipient
from outrider.kernel.access.fair_turns import FairTurns
from outrider.limits.reading import (
    READ_HERE_MAX_BYTES,
    READING_NICENESS,
    READINGS,
    READINGS_IN_THREADS,
    READINGS_WAITING_MAX,
)
from outrider.reading import child, tasks
from outrider.reading.child import Task
from outrider.rendering.renderer import child_environment, step_back

Found = TypeVar("Found")


class DocumentReader:
    def __init__(self) -> None:
        self._short = FairTurns("documents", READINGS_IN_THREADS, 1, READINGS_WAITING_MAX)
        self._long = FairTurns("large documents", READINGS, 1, READINGS_WAITING_MAX)

    @asynccontextmanager
    async def campaign(
        self, scope: Scope, path: Path, known_phases: Collection[str]
    ) -> AsyncIterator[tuple[CampaignDefinition, Iterable[Recipient]]]:
        """A campaign document and its recipients, which exist for the duration of the block."""
        with tempfile.TemporaryDirectory(prefix="outrider-reading-") as folder:
            found = Path(folder) / "recipients"
            size = await asyncio.to_thread(_size, path)
            definition = await self.run(
                scope, size, tasks.campaign, path, found, tuple(known_phases)
            )
            yield definition, tasks.recipients_in(found)

    @asynccontextmanager
    async def audience(
        self, scope: Scope, path: Path, message_ids: Collection[str]
    ) -> AsyncIterator[Iterable[Recipient]]:
        with tempfile.TemporaryDirectory(prefix="outrider-reading-") as folder:
            found = Path(folder) / "recipients"
            size = await asyncio.to_thread(_size, path)
            await self.run(scope, size, tasks.audience, path, found, frozenset(message_ids))
            yield tasks.recipients_in(found)

    @asynccontextmanager
    async def provider_export(
        self, scope: Scope, path: Path, mapping: Mapping[ExportField, str] | None
    ) -> AsyncIterator[tuple[ExportSummary, Iterable[Sequence[ExportRow]]]]:
        """How it was understood, and its rows in windows, for the duration of the block."""
        with tempfile.TemporaryDirectory(prefix="outrider-reading-") as folder:
            found = Path(folder) / "rows"
            size = await asyncio.to_thread(_size, path)
            summary = await self.run(scope, size, tasks.provider_export, path, found, mapping)
            yield summary, tasks.rows_in(found)

    async def workflows(self, scope: Scope, raw: bytes) -> WorkflowFile:
        return await self.run(scope, len(raw), tasks.workflows, raw)

    async def run(
        self, scope: Scope, size_bytes: int, function: Callable[..., Found], *arguments: Any
    ) -> Found:
        """What the function returns, or the InvalidInput that it raises."""
        if size_bytes <= READ_HERE_MAX_BYTES:
            async with self._short.turn(scope):
                return await asyncio.to_thread(function, *arguments)
        async with self._long.turn(scope):
            found: Found = await _in_process(Task(function, arguments))
            return found


def _size(path: Path) -> int:
    """The reader reports a missing file."""
    return path.stat().st_size if path.is_file() else 0


async def _in_process(task: Task) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-s", "-m", child.__name__,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=child_environment(),
        start_new_session=True,
    )  # fmt: skip
    step_back(process.pid, READING_NICENESS)
    try:
        output, _ = await process.communicate(pickle.dumps(task))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if not output:
        raise OutriderError(f"the reading process ended with {process.returncode}")
    answer = pickle.loads(output)
    if isinstance(answer, Exception):
        raise answer
    return answer
