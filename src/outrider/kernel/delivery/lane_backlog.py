"""What waits in a lane: one message per address at a time, in order, whatever route it takes.

`AddressTurns` is shared by the routes of one visit; a `Backlog` is one route's part of it and the
source that its caller draws from. The cost of both is independent of how much is waiting.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outrider.domain.ids import OutboxId
from outrider.domain.message_content import MessageContent
from outrider.domain.submission import Contract
from outrider.kernel.transactions.submissions import DueItem


@dataclass(frozen=True, slots=True)
class Due:
    """A due item, with its contract. Without content it is a client's own payload."""

    row: DueItem
    contract: Contract
    content: MessageContent | None = None

    @property
    def address(self) -> str | None:
        """The address it queues for. Clients order their own intents, which are spread over lanes;
        only messages that we composed go to an address one at a time."""
        address = self.row.address if self.content is not None else None
        return None if address is None else f"{self.row.channel}:{address.lower()}"


class AddressTurns:
    """The messages of each address in order: the first is being called or may be, the others wait
    for it to end."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[tuple[Backlog, Due]]] = {}

    def join(self, backlog: "Backlog", due: Due, address: str) -> bool:
        """Join the queue; returns whether it is first."""
        queue = self._queues.get(address)
        if queue is None:
            self._queues[address] = deque([(backlog, due)])
            return True
        queue.append((backlog, due))
        return False

    def end(self, address: str) -> None:
        """The first message of the address has ended, and the next one may go."""
        queue = self._queues[address]
        queue.popleft()
        if not queue:
            del self._queues[address]
            return
        backlog, due = queue[0]
        backlog.turn(due)

    def leave(self, backlog: "Backlog", due: Due, address: str) -> None:
        """It is not called in this visit after all."""
        queue = self._queues[address]
        if queue[0] == (backlog, due):
            self.end(address)
        else:
            queue.remove((backlog, due))


class Backlog:
    """What waits for one route."""

    def __init__(
        self, turns: AddressTurns, enclosing_items: int, when_drained: Callable[[], None]
    ) -> None:
        self._turns = turns
        self._enclosing_items = enclosing_items
        self._when_drained = when_drained
        self._waiting: dict[OutboxId, tuple[Due, str | None]] = {}
        """Each with its address."""
        self._ready: dict[OutboxId, Due] = {}
        """Those that do not wait for another message."""
        self._out: dict[OutboxId, str | None] = {}
        self._changed = asyncio.Event()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def out(self) -> int:
        return len(self._out)

    def has(self, outbox_id: OutboxId) -> bool:
        return outbox_id in self._waiting or outbox_id in self._out

    def put(self, due: Sequence[Due]) -> None:
        for each in due:
            address = each.address
            self._waiting[each.row.id] = each, address
            if address is None or self._turns.join(self, each, address):
                self._ready[each.row.id] = each
        self._changed.set()

    def turn(self, due: Due) -> None:
        """The messages ahead of it have ended."""
        self._ready[due.row.id] = due
        self._changed.set()

    def close(self) -> None:
        """Nothing more is added; what waits is left to the next visit."""
        self._is_closed = True
        left, self._waiting = self._waiting, {}
        # From the end, so that none of them gets its turn while another one leaves.
        for due, address in reversed(left.values()):
            if address is not None:
                self._turns.leave(self, due, address)
        self._ready.clear()
        self._changed.set()

    def ended(self, outbox_id: OutboxId) -> None:
        if outbox_id not in self._out:
            return
        address = self._out.pop(outbox_id)
        if address is not None:
            self._turns.end(address)
        self._changed.set()
        if not self._out and not self._waiting:
            self._when_drained()

    def wake(self) -> None:
        self._changed.set()

    def waiting(self) -> int:
        return len(self._ready)

    def take(self, most: int) -> list[Due]:
        """Only a few messages with files at a time: all of a window's files are in memory at
        once."""
        taken: list[Due] = []
        enclosing = 0
        for each in self._ready.values():
            if len(taken) == most:
                break
            if each.content is not None and each.content.attachments:
                if enclosing == self._enclosing_items:
                    continue
                enclosing += 1
            taken.append(each)
        for each in taken:
            outbox_id = each.row.id
            del self._ready[outbox_id]
            _, self._out[outbox_id] = self._waiting.pop(outbox_id)
        return taken

    def opened(self) -> None:
        """What was taken is open. Before that, another load would find it again."""
        if not self._waiting:
            self._when_drained()

    async def prepare(self) -> None:
        pass

    async def more(self) -> bool:
        """Wait until something was added, or an address became free."""
        if self._is_closed:
            return False
        self._changed.clear()
        await self._changed.wait()
        return not self._is_closed or bool(self._waiting)
