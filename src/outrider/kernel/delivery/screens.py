"""The screens of a workflow's items: small policies that let an item pass or say why not.

They are applied in order until one of them holds the item back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from outrider.domain.frequency import SendHistory
from outrider.domain.ids import OutboxId
from outrider.domain.message_content import MessageContent, read_letter
from outrider.domain.screen_policies import ScreenPolicies, WaitsFor, WhenReached
from outrider.domain.sending_hours import Wait, wait, zone_of
from outrider.domain.states import Channel
from outrider.domain.workflows import channel_kind
from outrider.ports.legacy import LegacySender

UNSUPPORTED_KIND = "unsupported_kind"
UNSUPPORTED_TEMPLATE = "unsupported_template"
INVALID_PAYLOAD = "invalid_payload"

Templates = Mapping[str, frozenset[str]]
"""The templates of each kind of item that can be sent from here."""


class Screened(Protocol):
    """The fields of a due item that a screen looks at."""

    @property
    def id(self) -> OutboxId: ...
    @property
    def channel(self) -> str: ...
    @property
    def address(self) -> str | None: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def template(self) -> str | None: ...
    @property
    def urgent(self) -> bool: ...
    @property
    def payload(self) -> str: ...
    @property
    def maybe_received(self) -> bool: ...
    @property
    def is_open(self) -> bool: ...


class Skip(NamedTuple):
    reason: str
    detail: str


class Fail(NamedTuple):
    reason: str
    detail: str


Refusal = Wait | Skip | Fail
Screen = Callable[[Screened], Refusal | None]


def supported_templates(legacy_senders: Iterable[LegacySender]) -> Templates:
    """One per channel, and those named after the channel's legacy senders."""
    templates = {}
    senders = list(legacy_senders)
    for channel in Channel:
        kind, template = channel_kind(channel)
        legacy = (sender.name for sender in senders if sender.place.channel is channel)
        templates[kind] = frozenset((template, *legacy))
    return templates


def first_refusal(item: Screened, screens: Sequence[Screen]) -> Refusal | None:
    for screen in screens:
        refusal = screen(item)
        if refusal is not None:
            return refusal
    return None


class SupportedTemplate:
    """The writer of the row may know kinds and templates that are unknown here."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    def __call__(self, item: Screened) -> Fail | None:
        templates = self._templates.get(item.kind or "")
        if templates is None:
            return Fail(UNSUPPORTED_KIND, f"'{item.kind}' is not a known kind")
        if item.template not in templates:
            return Fail(
                UNSUPPORTED_TEMPLATE, f"the kind '{item.kind}' has no template '{item.template}'"
            )
        return None


class ReadableContent:
    """Rejects a payload that is not valid message content; parsed contents are kept for other
    screens."""

    def __init__(self) -> None:
        self.contents: dict[OutboxId, MessageContent] = {}

    def __call__(self, item: Screened) -> Fail | None:
        content = readable(item.payload)
        if isinstance(content, str):
            return Fail(INVALID_PAYLOAD, content)
        self.contents[item.id] = content
        return None


def readable(payload: str) -> MessageContent | str:
    """The content, or why it is invalid."""
    try:
        return read_letter(msgspec.json.decode(payload))
    except (msgspec.DecodeError, RecursionError):
        return "the payload is not JSON"


class SendingHoursScreen:
    """Quiet hours and sending windows in each recipient's local time; computed once per zone."""

    def __init__(
        self,
        policies: ScreenPolicies,
        contents: Mapping[OutboxId, MessageContent],
        now: datetime,
        on_unknown_zone: Callable[[str], None],
    ) -> None:
        self._policies = policies
        self._contents = contents
        self._now = now
        self._on_unknown_zone = on_unknown_zone
        self._known: dict[tuple[str, str | None], Wait | None] = {}

    def __call__(self, item: Screened) -> Wait | None:
        if item.urgent:
            return None
        key = item.channel, self._contents[item.id].time_zone
        if key not in self._known:
            self._known[key] = self._wait(*key)
        return self._known[key]

    def _wait(self, channel: str, own_zone: str | None) -> Wait | None:
        hours = self._policies.hours(Channel(channel))
        if not hours:
            return None
        zone, unknown = zone_of(own_zone, self._policies.time_zone)
        if unknown is not None:
            self._on_unknown_zone(unknown)
        return wait(hours, zone, self._now)


class FrequencyCapScreen:
    """Comes last: an item that it lets pass is sent, and counts towards the cap for later items."""

    def __init__(self, policies: ScreenPolicies, history: SendHistory, now: datetime) -> None:
        self._policies = policies
        self._history = history
        self._now = now

    def __call__(self, item: Screened) -> Wait | Skip | None:
        cap = self._policies.cap(Channel(item.channel))
        if cap is None or item.address is None:
            return None
        key = item.channel, item.address
        until = None if item.urgent else self._history.free_again(cap, *key, self._now)
        if until is None:
            self._history.note(*key, self._now)
            return None
        if cap.when_reached is WhenReached.WAIT:
            return Wait(until, WaitsFor.FREQUENCY_CAP)
        return Skip(
            WaitsFor.FREQUENCY_CAP.value,
            f"{cap.messages} messages in {cap.per_hours} h were already sent to this address",
        )
