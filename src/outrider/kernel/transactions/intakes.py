"""Intakes: audiences written in many short transactions, invisible until the last one commits."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import Conflict
from outrider.domain.ids import CampaignId
from outrider.kernel.transactions import audience
from outrider.ports.store import Transaction, ask


class Intake(NamedTuple):
    """The existing audience stays, whatever happens to the intake."""

    campaign_id: CampaignId
    id: str
    first_position: int
    first_chunk: int


def begin(intake: Intake, expires_at: datetime) -> Transaction[bool]:
    """False if another intake of the campaign is in progress."""
    rows = yield from ask("open_intake", **intake._asdict(), expires_at=expires_at)
    return bool(rows)


def is_under_way(campaign_id: CampaignId) -> Transaction[bool]:
    rows = yield from ask("intake_of_campaign", campaign_id=campaign_id)
    return bool(rows)


def refuse_starts(campaign_id: CampaignId) -> Transaction[None]:
    if (yield from is_under_way(campaign_id)):
        raise Conflict(
            "recipients are being added to this campaign",
            hint="start it when the upload has ended",
        )


def keep(intake: Intake, expires_at: datetime) -> Transaction[None]:
    """For callers that write more of it in the same transaction."""
    rows = yield from ask(
        "keep_intake", campaign_id=intake.campaign_id, id=intake.id, expires_at=expires_at
    )
    _require_ours(rows)


def close(intake: Intake) -> Transaction[None]:
    """The intake is complete, and part of the audience from now on."""
    rows = yield from ask("close_intake", campaign_id=intake.campaign_id, id=intake.id)
    _require_ours(rows)


def _require_ours(rows: Sequence[object]) -> None:
    if not rows:
        raise Conflict(
            "the upload took too long and was cancelled; nothing was stored",
            hint="send it again",
        )


def abandon(intake: Intake) -> Transaction[None]:
    """Nothing more of it is written from now on."""
    yield from ask("abandon_intake", campaign_id=intake.campaign_id, id=intake.id)


def abandon_expired(now: datetime) -> Transaction[list[Intake]]:
    rows = yield from ask("abandon_expired_intakes", now=now)
    return [Intake(*row) for row in rows]


def take_away(intake: Intake, most_members: int, most_chunks: int) -> Transaction[bool]:
    """Remove the last part of what an abandoned intake wrote; returns whether there is more."""
    rows = yield from ask("next_position", campaign_id=intake.campaign_id)
    members = max(intake.first_position, rows[0][0] - most_members)
    uploaded = yield from audience.uploaded(intake.campaign_id)
    chunks = max(intake.first_chunk, uploaded - most_chunks)
    yield from ask("take_members_away", campaign_id=intake.campaign_id, first=members)
    yield from ask("take_address_pages_away", campaign_id=intake.campaign_id, first=members)
    yield from ask("take_uploads_away", campaign_id=intake.campaign_id, first=chunks)
    if members > intake.first_position or chunks > intake.first_chunk:
        return True
    yield from ask("forget_intake", campaign_id=intake.campaign_id, id=intake.id)
    return False


def begin_of_new_campaign(
    campaign_id: CampaignId, intake_id: str, expires_at: datetime
) -> Transaction[Intake]:
    """The campaign's id is not known to anyone yet, so there is no conflict."""
    intake = Intake(campaign_id, intake_id, 0, 0)
    yield from begin(intake, expires_at)
    return intake


def close_new(intake: Intake, size: int, *, staged: bool) -> Transaction[int]:
    """The audience of a new campaign is complete; returns its size."""
    yield from close(intake)
    if not staged:
        yield from audience.set_size(intake.campaign_id, size)
    return size


def kept_while(
    script: Transaction[None], intake: Intake, expires_at: datetime
) -> Transaction[None]:
    """The script, with the intake's expiry extended in the same transaction."""
    yield from script
    yield from keep(intake, expires_at)
