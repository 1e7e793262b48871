"""Files that commands read line by line, with a progress bar on a terminal."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from outrider.cli import texts
from outrider.cli.watching import progress_bar
from outrider.domain.errors import InvalidInput

STDIN = "-"


@contextmanager
def opened_with_progress(name: str, what: str) -> Iterator[tuple[BinaryIO, Callable[[], None]]]:
    """The file, and what to call after reading from it."""
    with _opened(name) as file, progress_bar() as progress:
        size = None if name == STDIN else os.fstat(file.fileno()).st_size
        task = progress.add_task(what, total=size, note="")

        def on_read() -> None:
            if size is not None:
                progress.update(task, completed=file.tell())

        yield file, on_read


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == STDIN:
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        raise InvalidInput(
            texts.EventLines.CANNOT_BE_READ.format(name=name, strerror=error.strerror)
        ) from error
