"""What a reading process reads: a campaign, an audience, a file of workflows.

Recipients are not part of the answer. They are written to a file, in the windows in which they are
then inserted into the database.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from outrider.documents import strict_json
from outrider.documents.audience import read_audience
from outrider.documents.campaign import parse_campaign
from outrider.documents.workflow import WorkflowFile, parse_workflows
from outrider.domain.batches import windows
from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.recipients import Recipient
from outrider.limits.campaigns import IMPORT_WINDOW_ITEMS
from outrider.rendering.checker import TemplateChecker

LENGTH_BYTES = 4


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


def write_recipients(path: Path, recipients: Iterable[Recipient]) -> None:
    encoder = msgspec.msgpack.Encoder()
    with path.open("wb") as file:
        for window in windows(recipients, IMPORT_WINDOW_ITEMS):
            encoded = encoder.encode(window)
            file.write(len(encoded).to_bytes(LENGTH_BYTES))
            file.write(encoded)


def recipients_in(path: Path) -> Iterator[Recipient]:
    """What `write_recipients` wrote, one window at a time."""
    decoder = msgspec.msgpack.Decoder(list[Recipient])
    with path.open("rb") as file:
        while length := file.read(LENGTH_BYTES):
            yield from decoder.decode(file.read(int.from_bytes(length)))
