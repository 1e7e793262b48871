"""The reading process: one task comes in on stdin, its result goes out on stdout.

It runs as `python -m outrider.reading.child` at low priority, under limits of memory and time, and
ends with its task. Both ends of the pipe are Outrider's own.
"""

import pickle
import resource
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from outrider.domain.errors import InvalidInput
from outrider.limits.reading import READING_CPU_SECONDS, READING_MEMORY_BYTES


class Task(NamedTuple):
    """A function of a module, by name, and its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (READING_MEMORY_BYTES, READING_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (READING_CPU_SECONDS, READING_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    task: Task = pickle.load(sys.stdin.buffer)
    answer: object
    try:
        answer = task.function(*task.arguments)
    except MemoryError:
        answer = InvalidInput(
            "reading the document needs more memory than allowed",
            hint="send the recipients as CSV or NDJSON: POST /campaigns/{campaignId}/audience",
        )
    except Exception as error:
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
