"""What a reading process reads: a campaign, an audience, a file of workflows, a provider's export.

Recipients and rows are not part of the answer. They are written to a file, in the windows in which
they are then inserted into the database, or looked up there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from outrider.documents import strict_json
from outrider.documents.audience import read_audience
from outrider.documents.campaign import parse_campaign
from outrider.documents.provider_export import ExportSummary, open_export
from outrider.documents.workflow import WorkflowFile, parse_workflows
from outrider.domain.batches import windows
from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.errors import InvalidInput
from outrider.domain.provider_exports import ExportField, ExportRow
from outrider.domain.recipients import Recipient
from outrider.limits.campaigns import IMPORT_WINDOW_ITEMS
from outrider.limits.exports import EXPORT_ROWS_MAX, EXPORT_WINDOW_ROWS
from outrider.rendering.checker import TemplateChecker

LENGTH_BYTES = 4

Kind = TypeVar("Kind")


def campaign(path: Path, recipients: Path, known_phases: Collection[str]) -> CampaignDefinition:
    with TemplateChecker() as checker:
        document = parse_campaign(
            path.read_bytes(),
            check_template=checker.check,
            source_root=None,
            known_phases=known_phases,
        )
    write_recipients(recipients, document.recipients())
    return document.definition


def audience(path: Path, recipients: Path, message_ids: Collection[str]) -> None:
    write_recipients(recipients, read_audience(path, message_ids))


def workflows(raw: bytes) -> WorkflowFile:
    with TemplateChecker() as checker:
        return parse_workflows(strict_json(raw), check_template=checker.check)


def provider_export(
    path: Path, rows: Path, mapping: Mapping[ExportField, str] | None
) -> ExportSummary:
    summary, found = open_export(path, mapping)
    write_windows(rows, found, EXPORT_WINDOW_ROWS)
    if summary.rows > EXPORT_ROWS_MAX:
        raise InvalidInput(
            f"the export has more than {EXPORT_ROWS_MAX:,} rows",
            hint="narrow it down to the days in question, or give it in parts",
        )
    return summary


def write_recipients(path: Path, recipients: Iterable[Recipient]) -> None:
    write_windows(path, recipients, IMPORT_WINDOW_ITEMS)


def write_windows(path: Path, items: Iterable[object], most: int) -> None:
    encoder = msgspec.msgpack.Encoder()
    with path.open("wb") as file:
        for window in windows(items, most):
            encoded = encoder.encode(window)
            file.write(len(encoded).to_bytes(LENGTH_BYTES))
            file.write(encoded)


def recipients_in(path: Path) -> Iterator[Recipient]:
    """What `write_recipients` wrote, one window at a time."""
    for window in _windows_in(path, Recipient):
        yield from window


def rows_in(path: Path) -> Iterator[list[ExportRow]]:
    return _windows_in(path, ExportRow)


def _windows_in(path: Path, kind: type[Kind]) -> Iterator[list[Kind]]:
    decoder = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]
    with path.open("rb") as file:
        while length := file.read(LENGTH_BYTES):
            yield decoder.decode(file.read(int.from_bytes(length)))
