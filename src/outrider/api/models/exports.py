"""A provider's export on the wire: how it was read, and what it says about doubts."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from outrider.api.models.common import Answer, Success
from outrider.documents.provider_export import ExportFormat, ExportSummary
from outrider.domain.provider_exports import ExportRow, Meaning, meaning_of
from outrider.kernel.receipts.export_reconciler import (
    AbsenceRefused,
    ExportPlan,
    PlannedVerdict,
    RowMatch,
)
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.limits.exports import EXPORT_MATCHES_SHOWN


class ExportProblem(Answer):
    line: str
    message: str


class ExportFile(Answer):
    name: str
    sha256: str
    format: ExportFormat
    encoding: str
    delimiter: str | None
    has_header: bool = Field(description="False: its columns are `column 1`, `column 2` and so on.")
    columns: list[str]
    rows: int
    unreadable: int = Field(description="Lines that could not be read.")
    problems: list[ExportProblem] = Field(description="The first of them.")
    first_time: datetime | None
    last_time: datetime | None
    sample: list[dict[str, str]] = Field(description="The first rows, as they were read.")

    @classmethod
    def of(cls, name: str, sha256: str, summary: ExportSummary) -> "ExportFile":
        return cls(
            name=name,
            sha256=sha256,
            format=summary.format,
            encoding=summary.encoding,
            delimiter=summary.delimiter,
            has_header=summary.has_header,
            columns=list(summary.columns),
            rows=summary.rows,
            unreadable=summary.unreadable,
            problems=[
                ExportProblem(line=each.path, message=each.message) for each in summary.problems
            ],
            first_time=summary.first_time,
            last_time=summary.last_time,
            sample=[dict(each) for each in summary.sample],
        )


class ExportStatus(Answer):
    status: str = Field(description="As in the export; empty for all rare ones together.")
    means: Meaning
    rows: int


class ExportRowAnswer(Answer):
    line: int
    reference: str | None
    provider_message_id: str | None
    recipient: str | None
    time: datetime | None
    status: str | None

    @classmethod
    def of(cls, row: ExportRow) -> "ExportRowAnswer":
        return cls(**row._asdict())


class ExportMatchAnswer(Answer):
    outbox_id: str
    recipient_id: str
    address: str | None
    verdict: DoubtVerdict
    matched_by: RowMatch | None = Field(description="Null: the export does not have it.")
    row: ExportRowAnswer | None

    @classmethod
    def of(cls, planned: PlannedVerdict) -> "ExportMatchAnswer":
        doubt, verdict, match = planned
        return cls(
            outbox_id=doubt.id,
            recipient_id=doubt.recipient_id,
            address=doubt.address,
            verdict=verdict,
            matched_by=match.matched_by if match else None,
            row=ExportRowAnswer.of(match.row) if match else None,
        )


class ExportCounts(Answer):
    """Doubts of the target, by their result."""

    doubts: int
    sent: int
    failed: int
    resubmit: int
    in_doubt: int = Field(description="Stay in doubt.")
    ambiguous: int = Field(description="Of these, several rows could be about them.")
    not_covered: int = Field(description="Of these, called outside the time range that it covers.")
    held: int = Field(description="Of these, their worker may still be running.")

    @classmethod
    def of(cls, plan: ExportPlan) -> "ExportCounts":
        return cls(
            doubts=len(plan.doubts),
            sent=plan.count(DoubtVerdict.SENT),
            failed=plan.count(DoubtVerdict.FAILED),
            resubmit=plan.count(DoubtVerdict.RESUBMIT),
            in_doubt=plan.left,
            ambiguous=plan.ambiguous,
            not_covered=plan.not_covered,
            held=plan.held,
        )


class Reconciled(Success):
    applied: bool
    submission_target: str
    file: ExportFile
    mapping: dict[str, str] = Field(description="The column of each field that was found.")
    statuses: list[ExportStatus]
    counts: ExportCounts = Field(description="What the export says; before it is applied, a plan.")
    resolved: int = Field(description="How many were resolved; 0 unless applied.")
    known_rows: int = Field(description="Rows about messages whose outcome is known.")
    unknown_rows: int = Field(description="Rows that match no message sent by this installation.")
    sample: list[ExportMatchAnswer]
    unknown_sample: list[ExportRowAnswer]
    absence_refused: AbsenceRefused | None = Field(
        description="Why the absence of a message from this export proves nothing."
    )
    is_all: bool = Field(description="False: there are more doubts; apply it again.")

    @classmethod
    def whole(
        cls,
        submission_target: str,
        file: ExportFile,
        summary: ExportSummary,
        plan: ExportPlan,
        meanings: Mapping[str, Meaning],
        resolved: int | None,
    ) -> "Reconciled":
        return cls(
            applied=resolved is not None,
            submission_target=submission_target,
            file=file,
            mapping={each.value: column for each, column in summary.mapping.items()},
            statuses=[
                ExportStatus(status=status, means=meaning_of(status, meanings), rows=rows)
                for status, rows in summary.statuses.most_common()
            ],
            counts=ExportCounts.of(plan),
            resolved=resolved or 0,
            known_rows=plan.known_rows,
            unknown_rows=plan.unknown_rows,
            sample=[ExportMatchAnswer.of(each) for each in plan.verdicts[:EXPORT_MATCHES_SHOWN]],
            unknown_sample=[ExportRowAnswer.of(each) for each in plan.unknown_sample],
            absence_refused=plan.absence_refused,
            is_all=plan.is_all,
        )
