"""Outrider's own HTML pages: templates that are next to the code that fills them.

Whatever is printed into a file named `.html` is escaped; a missing name is an error.
"""

from functools import cache
from pathlib import Path

from minijinja import Environment


@cache
def pages_in(folder: Path) -> Environment:
    return Environment(
        loader=lambda name: (folder / name).read_text(encoding="utf-8"),
        filters={"thousands": "{:,}".format, "many": _many},
        undefined_behavior="strict",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
