"""Identifiers: one NewType per object, UUIDv7 as text, and the contracts' idempotency keys.

Time and randomness come in as arguments, so that the same inputs always give the same id. Keys
follow the contracts' formulas exactly: lower-case hex SHA-256 of the fields joined by `|`.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
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
"""Grows by one each time a job is claimed; a holder of an older one has lost the job."""


class Scope(NamedTuple):
    """The owner of the data: on every row and in every query."""

    tenant_id: TenantId
    workspace_id: WorkspaceId


DEFAULT_TENANT = TenantId("00000000-0000-7000-8000-000000000001")
DEFAULT_WORKSPACE = WorkspaceId("00000000-0000-7000-8000-000000000002")
DEFAULT_SCOPE = Scope(DEFAULT_TENANT, DEFAULT_WORKSPACE)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")

KEY_SEPARATOR = "|"
TICKS_PER_MS = 4096
RANDOM_BYTES_PER_UUID = 8
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The variant is the two bits 10: one of 8, 9, a, b, chosen by a random digit."""


def uuid7_batch(first_tick: int, random_bytes: bytes) -> Iterator[str]:
    """UUIDv7 texts, one per tick starting at this one, for every eight random bytes given.

    A tick is 1/4096 of a millisecond, stored in the sub-millisecond field of RFC 9562 (method 3),
    so ids made within one millisecond are ordered too.
    """
    noise = random_bytes.hex()
    digits = 2 * RANDOM_BYTES_PER_UUID
    unix_ms, tick = divmod(first_tick, TICKS_PER_MS)
    stamp = _stamp(unix_ms)
    for start in range(0, len(noise), digits):
        if tick == TICKS_PER_MS:
            unix_ms, tick = unix_ms + 1, 0
            stamp = _stamp(unix_ms)
        middle = start + 4
        variant = _VARIANT[noise[start]]
        yield (
            f"{stamp}{tick:03x}-{variant}{noise[start + 1 : middle]}"
            f"-{noise[middle : start + digits]}"
        )
        tick += 1


def _stamp(unix_ms: int) -> str:
    text = f"{unix_ms:012x}"
    return f"{text[:8]}-{text[8:]}-7"


def is_uuid(text: str) -> bool:
    """Whether the text is a valid id; an invalid one cannot exist."""
    return _UUID.match(text) is not None


def idempotency_key(*fields: str) -> IdempotencyKey:
    """The hash every contract requires. A field containing the separator could forge another
    key."""
    joined = KEY_SEPARATOR.join(fields)
    if joined.count(KEY_SEPARATOR) != len(fields) - 1:
        raise _forgeable(next(field for field in fields if KEY_SEPARATOR in field))
    return IdempotencyKey(hashlib.sha256(joined.encode()).hexdigest())


def idempotency_keys(first: str, seconds: Iterable[str], *rest: str) -> list[IdempotencyKey]:
    """`idempotency_key(first, second, *rest)` for each of many, at a fraction of the cost."""
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


def item_keys(
    channel: Channel,
    run_id: RunId,
    recipient_ids: Sequence[str],
    asset_id: AssetId,
    submission_target: str,
    script_version: str | None,
    scheduled_for: str,
) -> list[IdempotencyKey]:
    """A key for each recipient of a message, by the formula of its channel.

    A post is one action whatever the audience: its key has no recipient, and its network is the
    submission target. An asset is an immutable version, so where a script names no version of its
    own, the asset id takes its place.
    """
    if channel is Channel.SOCIAL:
        post = idempotency_key(run_id, asset_id, submission_target, scheduled_for)
        return [post] * len(recipient_ids)
    version = (script_version or asset_id) if channel is Channel.VOICE else asset_id
    return idempotency_keys(run_id, recipient_ids, version, scheduled_for)


def intent_key(intent_id: str) -> IdempotencyKey:
    return idempotency_key("intent", intent_id)


def skipped_key(held: IdempotencyKey, job_id: JobId, recipient_id: RecipientId) -> IdempotencyKey:
    """The key of an item that was skipped because another one holds its own. The same inputs give
    the same key, so the item is recorded once, however often its job is retried."""
    return idempotency_key(held, job_id, recipient_id)
