"""What is logged of an unexpected error: its type and location, never its message.

An exception's message may quote a request, a row or a connection string; its locations cannot.
"""

import traceback
from collections.abc import Iterator
from pathlib import Path

PLACES_SHOWN_MAX = 12
CAUSES_SHOWN_MAX = 4


def described(error: BaseException) -> Iterator[str]:
    """The error, then its causes."""
    current: BaseException | None = error
    for _ in range(CAUSES_SHOWN_MAX):
        if current is None:
            return
        frames = traceback.extract_tb(current.__traceback__)[-PLACES_SHOWN_MAX:]
        places = " > ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames)
        yield f"{type(current).__module__}.{type(current).__qualname__} at {places}"
        current = current.__cause__ or current.__context__
