"""The event bus and alerts on the wire."""

from datetime import datetime
from typing import Any

import msgspec
from pydantic import Field

from outrider.api.models.common import Answer, Success
from outrider.domain.bus_queues import holds_messages, sink_of
from outrider.kernel.transactions.alerts import AlertRecord, runbook
from outrider.kernel.transactions.bus_letters import LetterRecord


class LetterAnswer(Answer):
    """An event that could not be delivered to a sink, and why."""

    id: str
    sink: str = Field(description="`@callbacks` for the callback of an intent.")
    run_id: str | None = Field(description="Null for a message event.")
    run_seq: int | None
    outbox_id: str | None = Field(description="The item of a message event.")
    event_type: str
    attempts: int
    error: str
    created_at: datetime
    redriven_at: datetime | None

    @classmethod
    def of(cls, letter: LetterRecord) -> "LetterAnswer":
        is_of_message = holds_messages(letter.sink)
        return cls(
            id=letter.id,
            sink=sink_of(letter.sink),
            run_id=None if is_of_message else letter.run_id,
            run_seq=None if is_of_message else letter.run_seq,
            outbox_id=letter.outbox_id,
            event_type=letter.type,
            attempts=letter.attempts,
            error=letter.error,
            created_at=letter.created_at,
            redriven_at=letter.redriven_at,
        )


class Redriven(Success):
    id: str
    sink: str


class AllRedriven(Success):
    redriven: int = Field(description="How many dead letters there were.")


class AlertAnswer(Answer):
    id: str
    code: str
    severity: str
    subject: str = Field(description="What it is about: a run, or a sink.")
    message: str
    detail: dict[str, Any]
    times: int = Field(description="How often it was raised since it was opened.")
    raised_at: datetime
    last_seen_at: datetime
    resolved_at: datetime | None
    runbook: str = Field(
        description="The page that says what to do: a URL where `OUTRIDER_PUBLIC_URL` is set,"
        " otherwise a path of this server."
    )

    @classmethod
    def of(cls, alert: AlertRecord, public_url: str | None) -> "AlertAnswer":
        return cls(
            id=alert.id,
            code=alert.code,
            severity=alert.severity,
            subject=alert.subject,
            message=alert.message,
            detail=msgspec.json.decode(alert.detail, type=dict[str, Any]),
            times=alert.times,
            raised_at=alert.raised_at,
            last_seen_at=alert.last_seen_at,
            resolved_at=alert.resolved_at,
            runbook=runbook(alert.code, public_url),
        )
