"""The export reconciler: settles doubts with a provider's own export.

It first makes a plan, which can be shown and changes nothing; applying the plan settles what is
still in doubt by then. A row is matched by our reference, else by the provider's ID, else by
recipient and time.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from outrider.domain.batches import windows
from outrider.domain.evidence import EvidenceKind
from outrider.domain.ids import OutboxId, Scope
from outrider.domain.provider_exports import (
    DoubtedCall,
    ExportRow,
    Meaning,
    by_content,
    meaning_of,
)
from outrider.domain.times import rfc3339
from outrider.kernel.foundation import Foundation
from outrider.kernel.receipts.doubt_resolver import DoubtResolver
from outrider.kernel.transactions import doubt_lists, doubts, export_matching, paging
from outrider.kernel.transactions.doubt_lists import DoubtFilter, ListedDoubt
from outrider.kernel.transactions.doubts import Basis, DoubtVerdict
from outrider.limits.exports import (
    EXPORT_CONTENT_ROWS_MAX,
    EXPORT_DOUBTS_MAX,
    EXPORT_MATCHES_SHOWN,
    EXPORT_SLACK_SECONDS,
)

RowWindows = Iterable[Sequence[ExportRow]]


class RowMatch(StrEnum):
    REFERENCE = "reference"
    PROVIDER_MESSAGE_ID = "provider_message_id"
    CONTENT = "recipient_and_time"


class AbsenceRefused(StrEnum):
    """Why it proves nothing that a message is not in the export."""

    NOTHING_MATCHED = "nothing_matched"
    """No row is about a message of this target: it is another export, or the wrong column."""
    UNREADABLE_ROWS = "unreadable_rows"
    """What could not be read may be the very message."""


@dataclass(frozen=True, slots=True)
class ExportTerms:
    """What to make of an export. The record that it is, is one target's."""

    submission_target: str
    file_name: str
    sha256: str
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    """Of plain statuses, where they are not what providers usually mean by them."""
    absent: DoubtVerdict | None = None
    """The verdict on doubts that the export, which is complete, does not have."""
    run_id: str | None = None
    campaign_id: str | None = None
    force: bool = False
    """Also conclude that nothing arrived where the worker that made the call may be running."""

    @property
    def of(self) -> DoubtFilter:
        return DoubtFilter(self.run_id, self.campaign_id, self.submission_target)


class ExportMatch(NamedTuple):
    """A doubt, and the row about it."""

    doubt: ListedDoubt
    row: ExportRow
    matched_by: RowMatch
    meaning: Meaning


class PlannedVerdict(NamedTuple):
    doubt: ListedDoubt
    verdict: DoubtVerdict
    match: ExportMatch | None
    """None: the export does not have it."""

    @property
    def evidence_kind(self) -> EvidenceKind:
        by_content = self.match is not None and self.match.matched_by is RowMatch.CONTENT
        return EvidenceKind.CONTENT if by_content else EvidenceKind.RECORD


@dataclass(slots=True)
class ExportPlan:
    """What an export says about the doubts of its target."""

    doubts: list[ListedDoubt] = field(default_factory=list)
    is_all: bool = True
    """Whether these are all doubts of the target."""
    matches: dict[OutboxId, ExportMatch] = field(default_factory=dict)
    verdicts: list[PlannedVerdict] = field(default_factory=list)
    ambiguous: int = 0
    """Doubts to which several rows could belong, by recipient and time."""
    held: int = 0
    """Doubts that would be concluded not to have arrived, if their worker were surely gone."""
    not_covered: int = 0
    """Doubts outside the time that the export covers."""
    known_rows: int = 0
    """Rows about messages of which the outcome is known."""
    unknown_rows: int = 0
    unknown_sample: list[ExportRow] = field(default_factory=list)
    absence_refused: AbsenceRefused | None = None

    def count(self, verdict: DoubtVerdict) -> int:
        return sum(1 for each in self.verdicts if each.verdict is verdict)

    @property
    def left(self) -> int:
        return len(self.doubts) - len(self.verdicts)


_SAYS = {Meaning.UNCLEAR: 0, Meaning.NOT_RECEIVED: 1, Meaning.FAILED: 2, Meaning.SENT: 3}


class _Covered:
    """From when to when an export's rows are, as far as they have times."""

    def __init__(self) -> None:
        self._first: datetime | None = None
        self._last: datetime | None = None

    def see(self, row: ExportRow) -> None:
        if row.time is not None:
            self._first = min(row.time, self._first or row.time)
            self._last = max(row.time, self._last or row.time)

    def covers(self, doubt: ListedDoubt) -> bool:
        if self._first is None or self._last is None:
            return True
        slack = timedelta(seconds=EXPORT_SLACK_SECONDS)
        called_at = doubt.opened_at or doubt.submitted_at
        return self._first - slack <= called_at <= self._last + slack


class ExportReconciler:
    def __init__(self, foundation: Foundation, resolver: DoubtResolver) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._resolver = resolver

    async def plan(
        self, scope: Scope, terms: ExportTerms, row_windows: RowWindows, *, unreadable: int = 0
    ) -> ExportPlan:
        plan = ExportPlan()
        await self._collect(scope, terms, plan)
        rows_left, covered = await self._match(scope, terms, plan, iter(row_windows))
        self._match_content(terms, plan, rows_left)
        self._judge(terms, plan, covered, unreadable)
        if not terms.force:
            await self._hold(scope, plan)
        return plan

    async def apply(
        self, scope: Scope, terms: ExportTerms, plan: ExportPlan, actor: str
    ) -> dict[DoubtVerdict, int]:
        """Settles what is still in doubt; returns how many of each verdict."""
        resolved = dict.fromkeys(DoubtVerdict, 0)
        for verdict in DoubtVerdict:
            for kind in (EvidenceKind.RECORD, EvidenceKind.CONTENT):
                meant = [
                    each
                    for each in plan.verdicts
                    if (each.verdict, each.evidence_kind) == (verdict, kind)
                ]
                for window in windows(meant, self._limits.reconcile_items):
                    basis = _basis(terms, kind, window)
                    found = await self._store.write(
                        doubts.resolve(
                            scope, [each.doubt.id for each in window], verdict,
                            f"the export {terms.file_name} of {terms.submission_target}", actor,
                            self._ids, self._clock.now(), basis,
                        )
                    )  # fmt: skip
                    resolved[verdict] += len(found)
        return resolved

    async def _collect(self, scope: Scope, terms: ExportTerms, plan: ExportPlan) -> None:
        after, most = paging.FIRST, self._limits.reconcile_items
        while len(plan.doubts) < EXPORT_DOUBTS_MAX:
            page = await self._store.read(doubt_lists.page(scope, terms.of, after, most))
            plan.doubts += page
            if len(page) < most:
                return
            after = page[-1].id
        plan.is_all = False

    async def _match(
        self,
        scope: Scope,
        terms: ExportTerms,
        plan: ExportPlan,
        row_windows: Iterator[Sequence[ExportRow]],
    ) -> tuple[list[ExportRow], _Covered]:
        """By reference and provider ID. Returns the rows that are about no known message."""
        by_reference: dict[str, ListedDoubt] = {doubt.reference: doubt for doubt in plan.doubts}
        by_id = {doubt.id: doubt for doubt in plan.doubts}
        left: list[ExportRow] = []
        covered = _Covered()
        while (rows := await asyncio.to_thread(next, row_windows, None)) is not None:
            others = []
            for row in rows:
                covered.see(row)
                doubt = by_reference.get(row.reference or "")
                if doubt is None:
                    others.append(row)
                else:
                    self._note(terms, plan, doubt, row, RowMatch.REFERENCE)
            known = await self._store.read(
                export_matching.known(scope, terms.submission_target, others)
            )
            for place, row in enumerate(others):
                found = known.get(place)
                if found is None:
                    plan.unknown_rows += 1
                    if len(plan.unknown_sample) < EXPORT_MATCHES_SHOWN:
                        plan.unknown_sample.append(row)
                    if len(left) < EXPORT_CONTENT_ROWS_MAX and row.may_be_unreferenced:
                        left.append(row)
                elif found in by_id:
                    self._note(terms, plan, by_id[found], row, RowMatch.PROVIDER_MESSAGE_ID)
                else:
                    plan.known_rows += 1
        return left, covered

    def _match_content(
        self, terms: ExportTerms, plan: ExportPlan, rows: Sequence[ExportRow]
    ) -> None:
        calls = {
            doubt.id: DoubtedCall(
                doubt.id, doubt.reference, doubt.address,
                doubt.opened_at or doubt.submitted_at, doubt.doubted_at,
            )
            for doubt in plan.doubts
            if doubt.id not in plan.matches
        }  # fmt: skip
        found, plan.ambiguous = by_content(rows, calls.values(), EXPORT_SLACK_SECONDS)
        for doubt in plan.doubts:
            if doubt.id in found:
                self._note(terms, plan, doubt, found[doubt.id], RowMatch.CONTENT)

    def _note(
        self,
        terms: ExportTerms,
        plan: ExportPlan,
        doubt: ListedDoubt,
        row: ExportRow,
        matched_by: RowMatch,
    ) -> None:
        """Of several rows about a message, the one that says most: it was sent, before all."""
        meaning = meaning_of(row.status, terms.meanings)
        known = plan.matches.get(doubt.id)
        if known is None or _SAYS[meaning] > _SAYS[known.meaning]:
            plan.matches[doubt.id] = ExportMatch(doubt, row, matched_by, meaning)

    def _judge(
        self, terms: ExportTerms, plan: ExportPlan, covered: _Covered, unreadable: int
    ) -> None:
        certain = any(each.matched_by is not RowMatch.CONTENT for each in plan.matches.values())
        if unreadable:
            plan.absence_refused = AbsenceRefused.UNREADABLE_ROWS
        elif not (certain or plan.known_rows):
            plan.absence_refused = AbsenceRefused.NOTHING_MATCHED
        for doubt in plan.doubts:
            match = plan.matches.get(doubt.id)
            verdict: DoubtVerdict | None = None
            match match.meaning if match else Meaning.NOT_RECEIVED:
                case Meaning.SENT:
                    verdict = DoubtVerdict.SENT
                case Meaning.FAILED:
                    verdict = DoubtVerdict.FAILED
                case Meaning.NOT_RECEIVED if match is not None:
                    verdict = terms.absent
                case Meaning.NOT_RECEIVED if terms.absent and plan.absence_refused is None:
                    if covered.covers(doubt):
                        verdict = terms.absent
                    else:
                        plan.not_covered += 1
            if verdict is DoubtVerdict.RESUBMIT and doubt.is_exhausted:
                # An exhausted item is never called again: sending it takes a new message.
                verdict = DoubtVerdict.FAILED
            if verdict is not None:
                plan.verdicts.append(PlannedVerdict(doubt, verdict, match))

    async def _hold(self, scope: Scope, plan: ExportPlan) -> None:
        """Absent now does not rule out that a living worker still sends it."""
        negative = [
            each.doubt.id for each in plan.verdicts if each.verdict is not DoubtVerdict.SENT
        ]
        living = await self._resolver.called_by_the_living(scope, negative)
        plan.held = len(living)
        plan.verdicts = [each for each in plan.verdicts if each.doubt.id not in living]


def _basis(terms: ExportTerms, kind: EvidenceKind, window: Sequence[PlannedVerdict]) -> Basis:
    messages = {
        each.doubt.id: each.match.row.provider_message_id
        for each in window
        if each.match is not None and each.match.row.provider_message_id is not None
    }
    return Basis(
        kind,
        terms.submission_target,
        messages=messages,
        details={each.doubt.id: _detail(terms, each.match) for each in window},
    )


def _detail(terms: ExportTerms, match: ExportMatch | None) -> dict[str, object]:
    """What the audit log keeps about the row, so that it can be found in the same file."""
    detail: dict[str, object] = {"export": terms.file_name, "exportSha256": terms.sha256}
    if match is None:
        return {**detail, "matchedBy": None}
    return {
        **detail,
        "matchedBy": match.matched_by.value,
        "line": match.row.line,
        "status": match.row.status,
        "time": rfc3339(match.row.time) if match.row.time else None,
    }
