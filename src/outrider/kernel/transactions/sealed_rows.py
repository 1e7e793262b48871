"""Rows as they are sealed: the ledger of a run in pages, with attempts and receipts of each page.

A row becomes one JSON array of all its columns. What may tell who somebody is, or what was said to
them, enters as a salted hash: an array can leave the house, and erasing a person leaves it valid.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from outrider.domain.erasure import PREFIX as ERASED_PREFIX
from outrider.domain.ids import RunId
from outrider.domain.states import ItemStatus
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.ports.store import Row, Rows, Transaction, ask

LEDGER_FIELDS = (
    "id", "jobId", "tenantId", "workspaceId", "origin", "channel", "provider", "submissionTarget",
    "contractId", "fallbackContractId", "attemptContractId", "assetId", "assetVersion", "reference",
    "status", "skipped", "intentStatus", "exhaustedReason", "attempts", "attemptFence",
    "attemptOpenedAt", "attemptClosedAt", "progress", "maybeReceived", "providerMessageId",
    "nextAttemptAt", "doubtedAt", "uncountedCalls", "repeats", "repeatTarget", "repeatMemory",
    "stepAttempt", "attemptsBefore", "topic", "transactional", "urgent", "kind", "waitsFor",
    "dueAt", "expiresAt", "domainEventId", "stepId", "callbackId", "answersReceipt", "timeZone",
    "createdAt", "updatedAt", "recipientHash", "detailHash", "earlierAttempts",
)  # fmt: skip
RECEIPT_FIELDS = (
    "outboxId", "id", "matchedBy", "matchedAt", "tenantId", "workspaceId", "submissionTarget",
    "receiptId", "event", "reference", "providerMessageId", "permanent", "keyword", "occurredAt",
    "receivedAt", "detailHash",
)  # fmt: skip

_PUBLIC = LEDGER_FIELDS.index("recipientHash")
_RECIPIENT = 2
"""How many of the columns after the public ones say who it is: recipient and address."""
_STATUS = LEDGER_FIELDS.index("status")
_FLAGS = [
    LEDGER_FIELDS.index(each) for each in ("skipped", "maybeReceived", "transactional", "urgent")
]
_RECEIPT_PUBLIC = RECEIPT_FIELDS.index("detailHash")
_PERMANENT = RECEIPT_FIELDS.index("permanent")
_ATTEMPT_PUBLIC = 8


@dataclass(frozen=True, slots=True)
class SealedRow:
    id: str
    is_open: bool
    """It has not ended yet, so that its row will still change."""
    content: bytes
    is_erased: bool = False
    """It is without what identified somebody, and sealed under the hashes of it."""


@dataclass(frozen=True, slots=True)
class RowsPage:
    ledger: Sequence[SealedRow]
    receipts: Sequence[SealedRow]
    last: LedgerPosition


class HiddenHashes(msgspec.Struct, frozen=True):
    """What a row shows of what is hidden in it."""

    detail: str
    recipient: str = ""
    attempts: list[str] = []


def row_salt(salt: bytes, id_: str) -> bytes:
    return hashlib.sha256(salt + id_.encode()).digest()


def hidden(salt: bytes, values: Sequence[object]) -> str:
    """Who knows the row's salt can check the values; who does not learns nothing from it."""
    return hashlib.sha256(salt + msgspec.json.encode(values)).hexdigest()


def page(
    run_id: RunId, workspace_id: str, salt: bytes, after: LedgerPosition, most: int
) -> Transaction[RowsPage]:
    rows = yield from ask(
        "ledger_to_seal",
        run_id=run_id,
        after_job=after.job_id,
        after_id=after.outbox_id,
        most=most,
    )
    if not rows:
        return RowsPage([], [], after)
    window = {"id": [row[0] for row in rows]}
    attempts = _by_item((yield from ask("attempts_to_seal", window)))
    receipts = _by_item((yield from ask("receipts_to_seal", window, workspace_id=workspace_id)))
    reported = [each[1] for found in receipts.values() for each in found]
    erased = yield from _erased([*window["id"], *reported])
    return RowsPage(
        [_ledger_row(row, attempts.get(row[0], ()), salt, erased.get(row[0])) for row in rows],
        [
            _receipt(each, salt, erased.get(each[1]))
            for row in rows
            for each in receipts.get(row[0], ())
        ],
        LedgerPosition(rows[-1][1], rows[-1][0]),
    )


def _erased(ids: Sequence[str]) -> Transaction[dict[str, HiddenHashes]]:
    """Under which hashes rows were sealed that are erased by now."""
    rows = yield from ask("erased_among", {"id": ids})
    return {row[0]: msgspec.json.decode(row[1], type=HiddenHashes) for row in rows}


@dataclass(frozen=True, slots=True)
class OpenedRow:
    """A row together with what is hidden in it."""

    row: SealedRow
    recipient: list[object]
    detail: list[object]


def opened(ids: Sequence[str], salt: bytes) -> Transaction[list[OpenedRow]]:
    rows = yield from ask("items_to_seal", {"id": ids})
    if not rows:
        return []
    attempts = _by_item((yield from ask("attempts_to_seal", {"id": [row[0] for row in rows]})))
    erased = yield from _erased([row[0] for row in rows])
    return [
        OpenedRow(
            _ledger_row(row, attempts.get(row[0], ()), salt, erased.get(row[0])),
            list(row[_PUBLIC : _PUBLIC + _RECIPIENT]),
            list(row[_PUBLIC + _RECIPIENT :]),
        )
        for row in rows
    ]


def _by_item(rows: Rows) -> Mapping[str, Sequence[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def item_hashes(row: Row, attempts: Sequence[Row], salt: bytes) -> HiddenHashes:
    own = row_salt(salt, row[0])
    private = list(row[_PUBLIC:])
    return HiddenHashes(
        hidden(own, private[_RECIPIENT:]),
        hidden(own, private[:_RECIPIENT]),
        [hidden(own, list(each[_ATTEMPT_PUBLIC:])) for each in attempts],
    )


def receipt_hashes(id_: str, private: Sequence[object], salt: bytes) -> HiddenHashes:
    return HiddenHashes(hidden(row_salt(salt, id_), private))


def _ledger_row(
    row: Row, attempts: Sequence[Row], salt: bytes, erased: HiddenHashes | None
) -> SealedRow:
    cells = list(row[:_PUBLIC])
    for index in _FLAGS:
        cells[index] = bool(cells[index])
    hashes = item_hashes(row, attempts, salt)
    is_erased = erased is not None and _is_empty(row[_PUBLIC + _RECIPIENT :])
    if erased is not None and is_erased:
        # Of a message that only told of the person, the recipient is still known.
        whose = erased.recipient if _is_nobody(row) else hashes.recipient
        hashes = HiddenHashes(erased.detail, whose, erased.attempts)
    cells += [hashes.recipient, hashes.detail]
    cells.append(
        [
            [*each[1:_ATTEMPT_PUBLIC], mark]
            for each, mark in zip(attempts, hashes.attempts, strict=False)
        ]
    )
    is_open = cells[_STATUS] == ItemStatus.QUEUED
    return SealedRow(row[0], is_open, msgspec.json.encode(cells), is_erased)


def _is_empty(detail: Sequence[object]) -> bool:
    """A row that says it was erased and still tells something was changed by somebody else."""
    subject, payload, template, _, error = detail
    return not any((subject, template, error)) and payload in (None, "{}")


def _is_nobody(row: Row) -> bool:
    recipient_id, address = row[_PUBLIC : _PUBLIC + _RECIPIENT]
    return address is None and str(recipient_id).startswith(ERASED_PREFIX)


def _receipt(row: Row, salt: bytes, erased: HiddenHashes | None) -> SealedRow:
    cells = list(row[:_RECEIPT_PUBLIC])
    cells[_PERMANENT] = None if cells[_PERMANENT] is None else bool(cells[_PERMANENT])
    private = list(row[_RECEIPT_PUBLIC:])
    is_erased = erased is not None and not any(private)
    hashes = erased if erased is not None and is_erased else receipt_hashes(row[1], private, salt)
    cells.append(hashes.detail)
    return SealedRow(row[1], False, msgspec.json.encode(cells), is_erased)
