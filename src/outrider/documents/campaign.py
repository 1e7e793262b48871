"""A campaign document: JSON bytes go in, a definition and its recipients come out.

Its head is validated by pydantic models, its recipients by hand, because there may be a million.
The mistakes of both are raised together. A bad address is not one: it is skipped at launch.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from outrider.documents import Problems, load_json
from outrider.documents.audience import AudienceReader, read_audience
from outrider.documents.campaign_messages import CampaignContext
from outrider.documents.campaign_model import CampaignModel, LocalCampaignModel
from outrider.documents.message_texts import note_shared_scripts
from outrider.documents.templates import TemplateCheck
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.recipients import Recipient
from outrider.limits.campaigns import DOCUMENT_MAX_BYTES

PHASES = (
    "audience_import",
    "dns_validation",
    "http_validation",
    "sender_validation",
    LAUNCH,
    "report",
)


@dataclass(frozen=True, slots=True)
class CampaignDocument:
    """The validated document. Each call of `recipients` reads the audience from its start.

    A file is read as it is iterated, so that a mistake in it is raised only then.
    """

    definition: CampaignDefinition
    recipients: Callable[[], Iterable[Recipient]]


def parse_campaign(
    raw: bytes,
    *,
    check_template: TemplateCheck,
    source_root: Path | None,
    known_phases: Collection[str] = PHASES,
) -> CampaignDocument:
    """The campaign, or InvalidInput with all its problems.

    `source_root` is the folder that `audience.source` is relative to; without one, as in the API,
    where files are not the caller's own, a source is refused.
    """
    problems = Problems("campaign")
    if len(raw) > DOCUMENT_MAX_BYTES:
        problems.add("", f"is larger than {DOCUMENT_MAX_BYTES} bytes; use audience.source")
        raise problems.error()
    given = load_json(raw, problems)
    document = None
    try:
        document = _model(given).model_validate(
            given, context=CampaignContext(check_template, source_root, known_phases)
        )
    except ValidationError as error:
        problems.add_all(error)
    message_ids = _message_ids(given, problems)
    note_shared_scripts(given, problems)
    recipients = _inline_recipients(given, message_ids, problems)
    if problems or document is None:
        raise problems.error()
    definition = document.definition()
    if document.audience.source is None:
        return CampaignDocument(definition, lambda: recipients)
    path = (source_root or Path()) / document.audience.source
    return CampaignDocument(definition, lambda: read_audience(path, message_ids))


def _model(given: object) -> type[CampaignModel]:
    is_local = isinstance(given, dict) and isinstance(given.get("scheduledFor"), dict)
    return LocalCampaignModel if is_local else CampaignModel


def _message_ids(given: object, problems: Problems) -> frozenset[str]:
    """The ids as far as they are known, even if a message has other mistakes."""
    messages = given.get("messages") if isinstance(given, dict) else None
    first: dict[str, int] = {}
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        message_id = message.get("id") if isinstance(message, dict) else None
        if not isinstance(message_id, str):
            continue
        if first.setdefault(message_id, index) != index:
            same = f"messages[{first[message_id]}].id"
            problems.add(f"messages[{index}].id", f"is the same as {same}")
    return frozenset(first)


def _inline_recipients(
    given: object, message_ids: frozenset[str], problems: Problems
) -> list[Recipient]:
    audience = given.get("audience") if isinstance(given, dict) else None
    raws = audience.get("recipients") if isinstance(audience, dict) else None
    if not isinstance(raws, list):
        return []
    reader = AudienceReader(problems, message_ids)
    read = (reader.read(raw, f"audience.recipients[{index}]") for index, raw in enumerate(raws))
    return [recipient for recipient in read if recipient is not None]
