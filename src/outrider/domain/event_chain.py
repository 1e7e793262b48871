"""The hash chain of a log: each entry's hash covers its content and the hash of the entry before.

The content is hashed here; the database adds sequence and previous hash as it assigns them. Both
databases and an offline check must get the same bytes, so a JSON column enters as it is written.
"""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.times import rfc3339

NO_HASH = bytes(32)
"""What the first entry of a chain has before it."""


def canonical(fields: Sequence[object], document: str) -> str:
    """One JSON array: the fields, and a JSON document in the very spelling that is stored."""
    opened = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))[:-1]
    return f"{opened},{document}]"


def content_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def next_hash(previous: bytes, sequence: int, content: bytes) -> bytes:
    return hashlib.sha256(previous + sequence.to_bytes(8, "big") + content).digest()


class LoggedEvent(NamedTuple):
    """A run event as its row has it, without its place in the log."""

    run_id: str
    type: str
    occurred_at: datetime
    step_id: str | None
    logical_attempt: int
    engine_attempt: int | None
    emitter: str
    plan_version: str
    key: str
    contract_version: str
    signal_id: str | None
    payload: str

    def canonical(self) -> str:
        fields = [*self[:2], rfc3339(self.occurred_at), *self[3:-1]]
        return canonical(fields, self.payload)


class LoggedEntry(NamedTuple):
    """An entry of the audit log as its row has it."""

    id: str
    tenant_id: str
    workspace_id: str
    campaign_id: str | None
    run_id: str | None
    job_id: str | None
    outbox_id: str | None
    actor: str
    event: str
    created_at: datetime
    detail: str

    def canonical(self) -> str:
        return canonical([*self[:9], rfc3339(self.created_at)], self.detail)
