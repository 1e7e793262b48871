"""The rows of the limit, the same on both stores: recipients, and what identifies a message."""

import hashlib
from collections.abc import Iterator

WINDOW = 500
IN_PARALLEL = 4
"""As many concurrent windows as an Outrider worker has."""
RUN = "00000000-0000-7000-8000-00000000000a"
CAMPAIGN = "00000000-0000-7000-8000-00000000000b"
TENANT = "00000000-0000-7000-8000-000000000001"
WORKSPACE = "00000000-0000-7000-8000-000000000002"
ASSET = "00000000-0000-7000-8000-00000000000c"

Member = tuple[int, str, str, str, str]


def members(first: int, count: int) -> Iterator[Member]:
    """Position, id, e-mail, phone and attributes."""
    for number in range(first, first + count):
        yield (
            number,
            f"lead-{number}",
            f"lead{number}@example.test",
            f"+4477{number:08d}",
            f'{{"firstName":"Person {number}"}}',
        )


def windows(first: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, WINDOW):
        yield start, min(start + WINDOW, first + count) - 1


def key(recipient_id: str) -> str:
    """What makes a second reservation of the same message impossible."""
    return hashlib.sha256(f"{RUN}|sms|{recipient_id}|{ASSET}".encode()).hexdigest()
