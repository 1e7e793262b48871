"""The database verifier: walks every hash chain and names each row that was tampered with.

It reads, in pages, beside running workers. Whoever can rewrite a chain from some entry to its end,
head included, is found only by a head that is kept elsewhere: docs/explanation/evidence.md.
"""

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum

from outrider.domain.chain_walk import ChainWalk, TamperedEntry, Tampering
from outrider.domain.errors import NotFound
from outrider.domain.event_chain import content_hash
from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEventType
from outrider.kernel.foundation import Foundation
from outrider.kernel.proof.bundle_verifier import BundleVerifier
from outrider.kernel.proof.seal_verifier import SealVerifier
from outrider.kernel.transactions import chains, retirement, seals
from outrider.kernel.transactions.chains import AuditHead, AuditLink, ChainedRun
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.retirement import RETIRED, Retirement
from outrider.kernel.transactions.seals import SEALED, Tree
from outrider.limits.proof import FINDINGS_MAX, VERIFY_PAGE_ROWS, VERIFY_PAGE_RUNS
from outrider.ports.artifacts import ArtifactStore

SealsOfRuns = dict[RunId, dict[int, str]]
"""The hash of each seal of each run."""
DATABASE = "database"
"""The actor of entries that a trigger writes. They have no hash of their own."""


class Proven(StrEnum):
    """What a chain covers."""

    RUN = "run"
    RUN_EVENT = "run_event"
    SEAL = "seal"
    BUNDLE = "bundle"
    LEDGER_ROW = "ledger_row"
    RECEIPT = "receipt"
    AUDIT_ENTRY = "audit_entry"


_ROWS = {Tree.LEDGER: Proven.LEDGER_ROW, Tree.RECEIPTS: Proven.RECEIPT}


@dataclass(frozen=True, slots=True)
class TamperedRow:
    what: Proven
    how: Tampering
    where: str
    """The run or the workspace."""
    which: str
    """The row: its sequence, or its id."""


@dataclass(slots=True)
class Verification:
    checked: Counter[Proven] = field(default_factory=Counter)
    before_chain: int = 0
    """Run events from before there were chains: nothing protects them."""
    waiting: int = 0
    """Entries of the audit log that are not chained yet."""
    unsealed: int = 0
    """Runs that are not sealed: they have not ended, or only just, or before there were seals."""
    retired: int = 0
    """Runs of which there is only the bundle, which was verified instead."""
    erased: int = 0
    """Sealed rows whose person was erased, which are otherwise as they were."""
    receipts_since: int = 0
    """Receipts that came after the last seal of their run."""
    other_keys: set[str] = field(default_factory=set)
    """Keys that signed seals here and are not this installation's own."""
    tampered: int = 0
    findings: list[TamperedRow] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.tampered == 0

    def note(self, finding: TamperedRow) -> None:
        self.tampered += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)


class DatabaseVerifier:
    def __init__(
        self, foundation: Foundation, seal_verifier: SealVerifier, bundle_verifier: BundleVerifier,
        artifacts: ArtifactStore,
    ) -> None:  # fmt: skip
        self._store = foundation.store
        self._seal_verifier = seal_verifier
        self._bundle_verifier = bundle_verifier
        self._artifacts = artifacts

    async def verify(self) -> Verification:
        found = Verification()
        began, sealed = False, SealsOfRuns()
        async for run in self._runs():
            found.checked[Proven.RUN] += 1
            kept = None
            if run.is_retired:
                kept = await self._store.read(retirement.of_run(run.run_id))
            walk, moved_at = await self._verify_events(run, kept, found)
            sealed[run.run_id] = await self._verify_seals(run.run_id, moved_at, kept, found)
            if run.is_retired:
                await self._verify_bundle(run.run_id, kept, sealed[run.run_id], found)
            # Ids grow with time, so that no run is older than those before it.
            if began and walk.head is None and walk.before_chain:
                found.note(TamperedRow(Proven.RUN, Tampering.UNCHAINED, run.run_id, run.run_id))
            began |= walk.head is not None and not walk.before_chain
        async for head in self._heads():
            await self._verify_audit(head, sealed, found)
        await self._find_unchained(found)
        return found

    async def _runs(self) -> AsyncIterator[ChainedRun]:
        after = FIRST
        while True:
            page = await self._store.read(chains.runs_after(after, VERIFY_PAGE_RUNS))
            for run in page:
                yield run
            if len(page) < VERIFY_PAGE_RUNS:
                return
            after = page[-1].run_id

    async def _verify_events(
        self, run: ChainedRun, kept: Retirement | None, found: Verification
    ) -> tuple[ChainWalk, int]:
        """Up to the counter that was read with the head: the run may go on meanwhile."""
        after, moved_at = (kept.events if kept else 0), 0
        walk = ChainWalk.behind(after, kept.head if kept else None)
        while True:
            page = await self._store.read(
                chains.events_after(run.run_id, after, run.last_seq, VERIFY_PAGE_ROWS)
            )
            for each in page:
                walk.step(each.run_seq, each.hash, content_hash(each.event.canonical()))
                if each.event.type != RunEventType.SIGNAL_REJECTED:
                    moved_at = each.run_seq
            found.checked[Proven.RUN_EVENT] += len(page)
            if len(page) < VERIFY_PAGE_ROWS:
                break
            after = page[-1].run_seq
        walk.end(run.last_seq, run.head)
        found.before_chain += walk.before_chain
        for entry in walk.found:
            found.note(_of_run(run.run_id, entry))
        if run.beyond is not None:
            entry = TamperedEntry(run.beyond, run.beyond, Tampering.INSERTED)
            found.note(_of_run(run.run_id, entry))
        return walk, moved_at

    async def _verify_seals(
        self, run_id: RunId, moved_at: int, kept: Retirement | None, found: Verification
    ) -> dict[int, str]:
        verifier = self._seal_verifier
        sealing = await (
            verifier.verify_signatures(run_id) if kept else verifier.verify(run_id, moved_at)
        )
        found.checked[Proven.LEDGER_ROW] += sealing.checked
        found.unsealed += not sealing.is_sealed
        found.erased += sealing.erased
        found.receipts_since += sealing.receipts_since
        found.other_keys |= sealing.other_keys
        for number, how in sealing.seals:
            found.note(TamperedRow(Proven.SEAL, how, run_id, str(number)))
        for sequence in sealing.events:
            found.note(TamperedRow(Proven.RUN_EVENT, Tampering.HEAD, run_id, str(sequence)))
        for tree, id_, how in sealing.rows:
            found.note(TamperedRow(_ROWS[tree], how, run_id, id_))
        return sealing.hashes

    async def _verify_bundle(
        self, run_id: RunId, kept: Retirement | None, sealed: dict[int, str], found: Verification
    ) -> None:
        """It has to be the one that was committed, to hold, and to end where the run was."""
        found.retired += 1
        found.checked[Proven.BUNDLE] += 1
        digest = hashlib.sha256()
        try:
            if kept is None or kept.reference is None:
                raise NotFound(run_id)
            pieces = _hashed(self._artifacts.read(kept.reference), digest)
            bundle = await self._bundle_verifier.verify_pieces(pieces)
        except NotFound:
            found.note(TamperedRow(Proven.BUNDLE, Tampering.REMOVED, run_id, run_id))
            return
        seal = bundle.seal
        is_kept = (
            bundle.holds
            and (digest.hexdigest(), bundle.last_event) == (kept.sha256, kept.events)
            and bundle.head == (None if kept.head is None else bytes(kept.head))
            and seal is not None
            and (seal.run_id, sealed.get(seal.seal)) == (run_id, seal.hash())
        )
        if not is_kept:
            found.note(TamperedRow(Proven.BUNDLE, Tampering.EDITED, run_id, run_id))

    async def _heads(self) -> AsyncIterator[AuditHead]:
        after = FIRST
        while True:
            page = await self._store.read(chains.audit_heads_after(after, VERIFY_PAGE_RUNS))
            for head in page:
                yield head
            if len(page) < VERIFY_PAGE_RUNS:
                return
            after = page[-1].workspace_id

    async def _verify_audit(
        self, head: AuditHead, sealed: SealsOfRuns, found: Verification
    ) -> None:
        walk, after, signed_off = ChainWalk(), 0, False
        ids: dict[int, str] = {}
        while True:
            page = await self._store.read(
                chains.audit_links_after(head.workspace_id, after, VERIFY_PAGE_ROWS)
            )
            page = [link for link in page if link.seq <= head.seq]
            for link in page:
                content = _content(link)
                known = len(walk.found)
                walk.step(link.seq, bytes(link.hash), content)
                if len(walk.found) > known:
                    ids[link.seq] = link.id
                elif signed_off and _is_foreign(link, content):
                    found.note(_of_audit(head, link.id, Tampering.INSERTED))
                signed_off |= link.content_hash is not None
                await self._verify_sealing(link, sealed, found)
            found.checked[Proven.AUDIT_ENTRY] += len(page)
            if len(page) < VERIFY_PAGE_ROWS:
                break
            after = page[-1].seq
        walk.end(head.seq, head.hash)
        for entry in walk.found:
            which = ids.get(entry.first, _span(entry))
            found.note(_of_audit(head, which, entry.how))

    async def _verify_sealing(
        self, link: AuditLink, sealed: SealsOfRuns, found: Verification
    ) -> None:
        """Who removes a seal, so that a changed run is sealed anew, is found by the audit log."""
        entry = link.entry
        if entry is None or entry.event not in (SEALED, RETIRED) or entry.run_id is None:
            return
        detail = json.loads(entry.detail)
        if entry.event == RETIRED:
            kept = await self._store.read(retirement.of_run(RunId(entry.run_id)))
            if kept is None or kept.sha256 != detail["sha256"]:
                how = Tampering.REMOVED if kept is None else Tampering.EDITED
                found.note(TamperedRow(Proven.BUNDLE, how, entry.run_id, entry.run_id))
            return
        run_id, number = RunId(entry.run_id), int(detail["seal"])
        if number not in sealed.get(run_id, {}):
            # Perhaps only since its run was looked at.
            found_now = await self._store.read(seals.of_run(run_id))
            sealed[run_id] = {each.seal: each.parsed().hash() for each in found_now}
        if (hash_ := sealed[run_id].get(number)) != detail["hash"]:
            how = Tampering.REMOVED if hash_ is None else Tampering.EDITED
            found.note(TamperedRow(Proven.SEAL, how, run_id, str(number)))

    async def _find_unchained(self, found: Verification) -> None:
        """Entries that are in no chain and wait for none, and runs that only the log remembers."""
        after, lost = FIRST, set[str]()
        while True:
            page = await self._store.read(chains.audit_places_after(after, VERIFY_PAGE_ROWS))
            for place in page:
                found.waiting += bool(place.is_waiting)
                if not place.is_chained and not place.is_waiting:
                    found.note(
                        TamperedRow(
                            Proven.AUDIT_ENTRY,
                            Tampering.INSERTED,
                            place.workspace_id,
                            place.id,
                        )
                    )
                if place.lacks_run and place.run_id is not None:
                    lost.add(place.run_id)
            if len(page) < VERIFY_PAGE_ROWS:
                break
            after = page[-1].id
        for run_id in sorted(lost):
            found.note(TamperedRow(Proven.RUN, Tampering.REMOVED, run_id, run_id))


async def _hashed(pieces: AsyncIterator[bytes], digest: "hashlib._Hash") -> AsyncIterator[bytes]:
    async for piece in pieces:
        digest.update(piece)
        yield piece


def _content(link: AuditLink) -> bytes | None:
    return None if link.entry is None else content_hash(link.entry.canonical())


def _is_foreign(link: AuditLink, content: bytes | None) -> bool:
    """Not written by Outrider: it lacks the hash that Outrider's entries have, or has another."""
    entry = link.entry
    if link.content_hash is None:
        return entry is not None and entry.actor != DATABASE
    return bytes(link.content_hash) != content


def _of_run(run_id: RunId, entry: TamperedEntry) -> TamperedRow:
    return TamperedRow(Proven.RUN_EVENT, entry.how, run_id, _span(entry))


def _of_audit(head: AuditHead, which: str, how: Tampering) -> TamperedRow:
    return TamperedRow(Proven.AUDIT_ENTRY, how, head.workspace_id, which)


def _span(entry: TamperedEntry) -> str:
    return str(entry.first) if entry.first == entry.last else f"{entry.first}-{entry.last}"
