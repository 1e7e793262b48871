"""Plain Temporal: a workflow for each window of 500 messages, with one activity that sends them."""

import asyncio
import signal
from importlib.metadata import version
from pathlib import Path

import uvloop
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from systems.child import Request, read_request
from systems.crew import ProcessCrew, is_worker, wait_for_go, worker_request
from systems.measures import measure
from systems.temporal_workflow import SendWindow, send

# Its docs ("Fan-Out with Child Workflows"): records are split into chunks of a fixed size, and a
# workflow takes a chunk. 500 is also the window of Outrider.
WINDOW = 500
STARTS_AT_ONCE = 16


class TemporalSystem:
    version = version("temporalio")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._queue = Path(request.folder).name
        self._started = 0
        self._done = 0
        self._watches: list[asyncio.Task[None]] = []

    async def prepare(self) -> None:
        self._client = await Client.connect(self._request.server)

    async def fill_terminal(self, rows: int) -> None:
        assert not rows

    async def enqueue(self, count: int) -> None:
        sizes = iter([min(WINDOW, count - start) for start in range(0, count, WINDOW)])

        async def start_some() -> None:
            for size in sizes:
                handle = await self._start([f"+4477{number:08d}" for number in range(size)])
                self._watches.append(asyncio.create_task(self._watch(handle)))

        async with asyncio.TaskGroup() as group:
            for _ in range(STARTS_AT_ONCE):
                group.create_task(start_some())

    async def done(self) -> int:
        """The result of a workflow is in its history, which is what Temporal keeps."""
        return self._done

    async def recorded(self) -> int:
        return self._done

    async def enqueue_one(self, number: int) -> None:
        await self._start([f"+4477{number:08d}"])

    def crew(self) -> ProcessCrew:
        return ProcessCrew("systems.temporal", self._request)

    async def close(self) -> None:
        for watch in self._watches:
            watch.cancel()

    async def _start(self, messages: list[str]) -> WorkflowHandle[SendWindow, int]:
        self._started += 1
        return await self._client.start_workflow(
            SendWindow.run, messages, id=f"{self._queue}-{self._started}", task_queue=self._queue
        )

    async def _watch(self, handle: WorkflowHandle[SendWindow, int]) -> None:
        size = await handle.result()
        self._done += size


async def work(request: Request) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    worker = Worker(
        await Client.connect(request.server),
        task_queue=Path(request.folder).name,
        workflows=[SendWindow],
        activities=[send],
        # Its README ("Sandbox Performance"): the sandbox costs time. It advises keeping it all the
        # same; without it Temporal is shown at its fastest.
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    wait_for_go()
    async with worker:
        await stop.wait()


async def main() -> None:
    if is_worker():
        await work(worker_request())
    else:
        request = read_request()
        await measure(TemporalSystem(request), request)


if __name__ == "__main__":
    uvloop.run(main())
