"""A provider's export, read and matched with doubts: for the API and for `outrider doubts`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outrider.api.models.exports import ExportFile, Reconciled
from outrider.bootstrap import Outrider
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import Scope
from outrider.domain.provider_exports import ExportField, Meaning, plain
from outrider.kernel.receipts.export_reconciler import ExportTerms
from outrider.kernel.transactions.doubts import DoubtVerdict


@dataclass(frozen=True, slots=True)
class ExportRequest:
    submission_target: str
    file_name: str
    sha256: str
    mapping: Mapping[ExportField, str] | None = None
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    absent: DoubtVerdict | None = None
    run_id: str | None = None
    campaign_id: str | None = None
    force: bool = False


async def reconcile(
    outrider: Outrider, scope: Scope, path: Path, given: ExportRequest, actor: str, *, apply: bool
) -> Reconciled:
    """Without `apply`, nothing is changed."""
    if given.absent is DoubtVerdict.SENT:
        raise InvalidInput(
            "what an export does not have was not sent",
            [Problem("absent", "should be failed or resubmit")],
        )
    terms = ExportTerms(
        given.submission_target, given.file_name, given.sha256, given.meanings, given.absent,
        given.run_id, given.campaign_id, given.force,
    )  # fmt: skip
    reconciler = outrider.export_reconciler
    async with outrider.document_reader.provider_export(scope, path, given.mapping) as read:
        summary, rows = read
        plan = await reconciler.plan(scope, terms, rows, unreadable=summary.unreadable)
    resolved: int | None = None
    if apply:
        resolved = sum((await reconciler.apply(scope, terms, plan, actor)).values())
    file = ExportFile.of(given.file_name, given.sha256, summary)
    return Reconciled.whole(given.submission_target, file, summary, plan, given.meanings, resolved)


def mapping_of(given: Mapping[str, str], path: str) -> dict[ExportField, str]:
    """`path` names the option for mistakes."""
    known = {plain(each.value): each for each in ExportField}
    wrong = [name for name in given if plain(name) not in known]
    if wrong:
        fields = ", ".join(ExportField)
        raise InvalidInput(
            "the mapping names fields that do not exist",
            [Problem(f"{path}.{name}", f"is not one of {fields}") for name in wrong],
        )
    return {known[plain(name)]: column for name, column in given.items() if column}


def meanings_of(given: Mapping[str, str], path: str) -> dict[str, Meaning]:
    wrong = [status for status, means in given.items() if means not in set(Meaning)]
    if wrong:
        meanings = ", ".join(Meaning)
        raise InvalidInput(
            "a status is given a meaning that does not exist",
            [Problem(f"{path}.{status}", f"should mean one of {meanings}") for status in wrong],
        )
    return {plain(status): Meaning(means) for status, means in given.items()}
