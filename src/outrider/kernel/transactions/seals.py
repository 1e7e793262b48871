"""Seals of runs: which run is due, its seals, and the leaves under their roots."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from outrider.domain.ids import RunId, Scope, TenantId, WorkspaceId
from outrider.domain.seals import Seal
from outrider.kernel.transactions import audit
from outrider.kernel.transactions.audit import AuditEntry
from outrider.kernel.transactions.chains import AuditHead
from outrider.limits.proof import SEALS_MAX
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, ask, ask_alone

SEALED = "run.sealed"
SEALER = "sealer"


class Tree(StrEnum):
    LEDGER = "ledger"
    RECEIPTS = "receipts"


class EndedRun(NamedTuple):
    run_id: RunId
    scope: Scope
    status_seq: int
    sealed_seq: int
    finished_at: datetime

    @property
    def ended_anew(self) -> bool:
        """Since its last seal, so that its rows may be different ones."""
        return self.sealed_seq < self.status_seq


class StoredSeal(NamedTuple):
    seal: int
    document: str
    key_id: str
    signature: bytes
    salt: bytes
    public_key: bytes | None

    def parsed(self) -> Seal:
        return Seal.parse(self.document)


class RegisteredKey(NamedTuple):
    id: str
    public_key: bytes
    created_at: datetime


def is_due(now: datetime) -> Transaction[bool]:
    return bool((yield from ask_alone("is_run_to_seal", now=now)))


def claim_ended(now: datetime, until: datetime) -> Transaction[EndedRun | None]:
    return ended((yield from ask_alone("claim_unsealed_run", now=now, until=until)))


def claim_sealed(now: datetime, until: datetime) -> Transaction[EndedRun | None]:
    return ended((yield from ask_alone("claim_run_to_reseal", now=now, until=until)))


def ended(rows: Rows) -> EndedRun | None:
    if not rows:
        return None
    run_id, tenant, workspace, status_seq, sealed_seq, finished_at = rows[0]
    scope = Scope(TenantId(tenant), WorkspaceId(workspace))
    return EndedRun(RunId(run_id), scope, status_seq, sealed_seq, finished_at)


def of_run(run_id: RunId) -> Transaction[list[StoredSeal]]:
    rows = yield from ask_alone("seals_of_run", run_id=run_id, most=SEALS_MAX)
    return [StoredSeal(*row) for row in rows]


def reported(run_id: RunId) -> Transaction[int]:
    rows = yield from ask_alone("reported_of_run", run_id=run_id)
    return int(rows[0][0])


def audit_head(workspace_id: str) -> Transaction[AuditHead | None]:
    rows = yield from ask_alone("audit_head", workspace_id=workspace_id)
    return AuditHead(*rows[0]) if rows else None


def workspace_of(run_id: RunId) -> Transaction[str]:
    rows = yield from ask_alone("workspace_of_run", run_id=run_id)
    return str(rows[0][0])


def put_page(run_id: RunId, tree: Tree, page: int, seal: int, leaves: bytes) -> Transaction[None]:
    yield from ask_alone(
        "put_sealed_page", run_id=run_id, tree=tree.value, page=page, seal=seal, leaves=leaves
    )


def sealed_page(run_id: RunId, tree: Tree, page: int, seal: int) -> Transaction[bytes | None]:
    """The leaves of a page; None beyond the last."""
    rows = yield from ask_alone("sealed_page", run_id=run_id, tree=tree.value, page=page, seal=seal)
    return bytes(rows[0][0]) if rows else None


def erasures(run_id: RunId) -> Transaction[int]:
    """How often somebody was erased in this run."""
    return int((yield from ask_alone("erasures_in_run", run_id=run_id))[0][0])


def put(
    run: EndedRun, made: Seal, stored: StoredSeal, reseal_at: datetime | None, erased: int,
    ids: IdSource, now: datetime,
) -> Transaction[bool]:  # fmt: skip
    """The seal, and an entry of the audit log: who removes the one is found by the other. False:
    somebody was erased in the run while its rows were read, so that they have to be read again."""
    assert stored.public_key is not None
    if int((yield from ask("lock_erasures_in_run", run_id=run.run_id))[0][0]) != erased:
        return False
    yield from ask("insert_evidence_key", id=stored.key_id, public_key=stored.public_key, now=now)
    yield from ask(
        "insert_seal",
        run_id=run.run_id,
        seal=stored.seal,
        document=stored.document,
        key_id=stored.key_id,
        signature=stored.signature,
        salt=stored.salt,
    )
    entry = AuditEntry(
        run.scope,
        SEALED,
        SEALER,
        run_id=run.run_id,
        detail={"seal": made.seal, "hash": made.hash()},
    )
    yield from audit.record([entry], ids, now)
    yield from seen(run, reseal_at)
    return True


def seen(run: EndedRun, reseal_at: datetime | None) -> Transaction[None]:
    """Looked at; when to look again."""
    yield from ask(
        "run_is_sealed", run_id=run.run_id, status_seq=run.status_seq, reseal_at=reseal_at
    )


def keys() -> Transaction[list[RegisteredKey]]:
    rows = yield from ask_alone("evidence_keys")
    return [RegisteredKey(*row) for row in rows]


def register_key(id_: str, public_key: bytes, now: datetime) -> Transaction[None]:
    yield from ask_alone("insert_evidence_key", id=id_, public_key=public_key, now=now)
