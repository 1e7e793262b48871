"""What is logged of an error that nobody foresaw: its kind and where, never what it says.

The words of an exception may quote a request, a row or a driver's connection; its places may not.
"""

import traceback
from collections.abc import Iterator
from pathlib import Path

PLACES_SHOWN_MAX = 12
CAUSES_SHOWN_MAX = 4


def described(error: BaseException) -> Iterator[str]:
    """The error, then what it came of."""
    current: BaseException | None = error
    for _ in range(CAUSES_SHOWN_MAX):
        if current is None:
            return
        frames = traceback.extract_tb(current.__traceback__)[-PLACES_SHOWN_MAX:]
        places = " > ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames)
        yield f"{type(current).__module__}.{type(current).__qualname__} at {places}"
        current = current.__cause__ or current.__context__
