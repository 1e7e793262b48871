"""Who receives run events: `[bus.NAME]` in `outrider.toml`, or OUTRIDER_BUS."""

import json
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

from outrider.domain.sink_urls import SinkKind, sink_url
from outrider.limits.bus import SINK_NAME_PATTERN, SINK_TIMEOUT_SECONDS, SINKS_MAX
from outrider.settings.targets import SecretReference


class SinkSettings(BaseModel):
    """Who receives run events. In `outrider.toml`: `[bus.NAME]`.

    `secret` signs for a webhook, is the password or token for NATS, the password for Redis.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    """https://…, nats://… or redis://…; see docs/reference/event-bus.md."""
    secret: SecretReference | None = None
    """It signs for a webhook, is the password or token for NATS, the password for Redis."""
    timeout_seconds: float = Field(default=SINK_TIMEOUT_SECONDS, gt=0, le=300)
    """How long one delivery may take."""
    max_attempts: int | None = Field(default=None, ge=1, le=1_000)
    """After so many attempts, 20 unless set, an event is a dead letter."""

    @field_validator("url")
    @classmethod
    def _known(cls, url: str) -> str:
        sink_url(url)
        return url

    @model_validator(mode="after")
    def _signed(self) -> Self:
        if self.secret is None and sink_url(self.url).kind is SinkKind.WEBHOOK:
            raise ValueError("a webhook requires a `secret` to sign with, as env:NAME or file:PATH")
        return self


def read_sinks(given: object) -> object:
    """OUTRIDER_BUS is a JSON object of sinks, or in short form their URLs separated by commas.

    In short form, sinks are named after their kinds, and webhooks are signed with
    OUTRIDER_BUS_SECRET.
    """
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("{"):
        try:
            return json.loads(given)
        except ValueError:
            raise ValueError("is neither a JSON object of sinks nor a list of URLs") from None
    sinks: dict[str, object] = {}
    counts: dict[str, int] = {}
    for url in filter(None, (piece.strip() for piece in given.split(","))):
        kind = sink_url(url).kind
        counts[kind] = counts.get(kind, 0) + 1
        name = kind.value if counts[kind] == 1 else f"{kind.value}-{counts[kind]}"
        signed = {"secret": "env:OUTRIDER_BUS_SECRET"} if kind is SinkKind.WEBHOOK else {}
        sinks[name] = {"url": url, **signed}
    return sinks


SinkName = Annotated[str, Field(pattern=SINK_NAME_PATTERN)]
Sinks = Annotated[
    dict[SinkName, SinkSettings], NoDecode, BeforeValidator(read_sinks), Field(max_length=SINKS_MAX)
]
