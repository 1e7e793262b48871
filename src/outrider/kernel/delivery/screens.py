"""The screens of single messages: small policies that let an item pass or say why not.

They are applied in order until one of them holds the item back.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from outrider.domain.ids import OutboxId
from outrider.domain.message_content import MessageContent, read_letter
from outrider.domain.purposes import Purpose
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.sending_hours import Wait
from outrider.domain.states import Channel
from outrider.domain.workflows import channel_kind
from outrider.kernel.delivery.hours_judge import HoursJudge
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
    def topic(self) -> str | None: ...
    @property
    def transactional(self) -> bool: ...
    @property
    def time_zone(self) -> str | None: ...
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
    """Quiet hours and sending windows where the recipient is; urgent and exempt messages pass."""

    def __init__(
        self,
        policies: ScreenPolicies,
        judge: HoursJudge,
        contents: Mapping[OutboxId, MessageContent],
        now: datetime,
    ) -> None:
        self._policies = policies
        self._judge = judge
        self._contents = contents
        self._now = now
        self.exempted: Counter[tuple[str, str]] = Counter()
        """Exempt messages that would have had to wait, by their topic and for what."""

    def __call__(self, item: Screened) -> Wait | None:
        if item.urgent or not self._policies.hours(Channel(item.channel)):
            return None
        content = self._contents.get(item.id)
        own_zone = content.time_zone if content else item.time_zone
        zones = self._judge.zones(own_zone, item.address)
        wait = self._judge.wait(Channel(item.channel), zones, self._now)
        if wait is not None and self._policies.exempts(Purpose(item.topic, item.transactional)):
            self.exempted[item.topic or "", wait.waits_for.value] += 1
            return None
        return wait
