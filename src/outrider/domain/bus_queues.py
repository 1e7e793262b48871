"""Queues of the event bus, by name: a sink's run events, its message events, and all callbacks.
The history has run events only.

The name of a sink has no `@`, so a queue with one holds message events, in the database too.
"""

from typing import Final

MARK: Final = "@"
CALLBACKS: Final = f"{MARK}callbacks"
HISTORY: Final = "history"
"""The sink that mirrors runs into another database; no other sink may have its name."""
_MESSAGES: Final = f"{MARK}messages"


def message_queue(sink: str) -> str:
    return sink + _MESSAGES


def holds_messages(queue: str) -> bool:
    return MARK in queue


def sink_of(queue: str) -> str:
    """Whose queue it is, as people name it."""
    return queue.removesuffix(_MESSAGES)
