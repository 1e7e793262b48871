"""Identifiers: one NewType an object, UUIDv7 in text form, and the contracts' idempotency keys.

Time and randomness come in as arguments, so that the same inputs always give the same id. Keys are
the contracts' formulas to the letter: lower-case hex SHA-256 of the fields joined by `|`.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NewType

from outrider.domain.errors import InvalidInput
from outrider.domain.states import Channel

TenantId = NewType("TenantId", str)
WorkspaceId = NewType("WorkspaceId", str)
CampaignId = NewType("CampaignId", str)
AssetId = NewType("AssetId", str)
RunId = NewType("RunId", str)
JobId = NewType("JobId", str)
OutboxId = NewType("OutboxId", str)
RecipientId = NewType("RecipientId", str)
WorkerId = NewType("WorkerId", str)
IdempotencyKey = NewType("IdempotencyKey", str)
Fence = NewType("Fence", int)
"""Grows by one each time a job is claimed; whoever holds an older one has lost the job."""


class Scope(NamedTuple):
    """Whose data it is: on every row and in every query."""

    tenant_id: TenantId
    workspace_id: WorkspaceId


DEFAULT_TENANT = TenantId("00000000-0000-7000-8000-000000000001")
DEFAULT_WORKSPACE = WorkspaceId("00000000-0000-7000-8000-000000000002")
DEFAULT_SCOPE = Scope(DEFAULT_TENANT, DEFAULT_WORKSPACE)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")

KEY_SEPARATOR = "|"
TICKS_PER_MS = 4096
RANDOM_BYTES_PER_UUID = 8


def uuid7_batch(first_tick: int, random_bytes: bytes) -> Iterator[str]:
    """UUIDv7 texts, one a tick from this one on, for every eight random bytes given.

    A tick is a 4096th of a millisecond, and stands where RFC 9562 (method 3) puts a finer clock:
    so the ids of one millisecond are in the order they were made in, too.
    """
    noise = random_bytes.hex()
    digits = 2 * RANDOM_BYTES_PER_UUID
    for tick, start in enumerate(range(0, len(noise), digits), start=first_tick):
        stamp = f"{tick:015x}"
        # The variant is the two bits 10: one of 8, 9, a, b, chosen by the first digit.
        variant = "89ab"[int(noise[start], 16) & 3]
        yield (
            f"{stamp[:8]}-{stamp[8:12]}-7{stamp[12:]}-{variant}{noise[start + 1 : start + 4]}"
            f"-{noise[start + 4 : start + digits]}"
        )


def is_uuid(text: str) -> bool:
    """Whether the text can be an id at all; what cannot be one exists nowhere."""
    return _UUID.match(text) is not None


def idempotency_key(*fields: str) -> IdempotencyKey:
    """The hash every contract asks for. A field holding the separator could forge another key."""
    joined = KEY_SEPARATOR.join(fields)
    if joined.count(KEY_SEPARATOR) != len(fields) - 1:
        raise _forgeable(next(field for field in fields if KEY_SEPARATOR in field))
    return IdempotencyKey(hashlib.sha256(joined.encode()).hexdigest())


def idempotency_keys(first: str, seconds: Iterable[str], *rest: str) -> list[IdempotencyKey]:
    """`idempotency_key(first, second, *rest)` for each of many, at a fraction of the price."""
    begun = hashlib.sha256(f"{first}{KEY_SEPARATOR}".encode())
    end = "".join(f"{KEY_SEPARATOR}{field}" for field in rest)
    idempotency_key(first, *rest)
    keys = []
    for second in seconds:
        if KEY_SEPARATOR in second:
            raise _forgeable(second)
        key = begun.copy()
        key.update(f"{second}{end}".encode())
        keys.append(IdempotencyKey(key.hexdigest()))
    return keys


def _forgeable(field: str) -> InvalidInput:
    return InvalidInput(
        f"an idempotency field must not contain '{KEY_SEPARATOR}': {field!r}",
        hint=f"use an id without '{KEY_SEPARATOR}'",
    )


def item_key_field(channel: Channel, asset_id: str, script_version: str | None) -> str:
    """What stands for the message in an item's key, after run and recipient; by channel."""
    match channel:
        case Channel.VOICE:
            return script_version or asset_id
        case Channel.SOCIAL:
            return channel.value
        case _:
            return asset_id
