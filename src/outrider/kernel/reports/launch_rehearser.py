"""The launch rehearser: renders what a launch would send, window by window, and sends nothing.

The result lists who would fail in rendering and why, so a misspelt variable is found before
anything is sent, with the same errors that the items would have.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from outrider.domain.campaigns import Message
from outrider.domain.ids import CampaignId, Scope
from outrider.domain.recipients import AddressKind, address_kind, screen
from outrider.domain.states import Channel
from outrider.domain.texts import breaks_header
from outrider.domain.unsubscribe import VARIABLE as UNSUBSCRIBE_URL
from outrider.domain.unsubscribe import shows_link, with_link
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.delivery.item_drafter import INVALID_HEADER, RENDER_FAILED
from outrider.kernel.transactions import previews, suppressions
from outrider.kernel.transactions.ledger import Member
from outrider.kernel.transactions.previews import LeftOver
from outrider.kernel.transactions.suppressions import PlannedMessage
from outrider.limits.campaigns import (
    DRY_RUN_EXAMPLES_MAX,
    DRY_RUN_FAILURES_MAX,
    DRY_RUN_RENDERED_MAX,
    DRY_RUN_WINDOW_ITEMS,
    REHEARSED_COLUMNS_MAX,
)
from outrider.ports.renderer import Rendered, Renderer, RenderProblem
from outrider.ports.store import Store

PREVIEWED_ADDRESS = "preview@example.invalid"
"""Used in unsubscribe links: a read-only user must not be able to opt a recipient out."""

Variables = Callable[[str], set[str]]
"""The variables that a template requires."""


@dataclass
class RenderFailure:
    message_id: str
    variant: str | None
    reason: str
    detail: str
    recipients: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass
class LaunchRehearsal:
    """`rendered` may be fewer than would be sent: of a large audience only a sample is rendered,
    of each message as many."""

    messages: int
    rendered: int = 0
    rendered_of: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Counts by message and variant."""
    failures: dict[tuple[str, str | None, str, str], RenderFailure] = field(default_factory=dict)
    failed: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Likewise, including failures beyond those listed individually."""

    def failed_of(self, message: Message) -> int:
        """Everybody was rendered with every variant: at most so many fail with theirs."""
        return max((self.failed[text.id, text.variant] for text in message.texts), default=0)

    def left(self, message: Message) -> int:
        """How many of this message are still to be rendered: a first message that used up the
        whole sample would hide the mistakes of the others."""
        share = max(1, DRY_RUN_RENDERED_MAX // max(1, self.messages))
        return max(0, share - self.rendered_of[message.id, message.variant])

    def note(self, message: Message, member: Member, text: Rendered | RenderProblem) -> None:
        self.rendered += 1
        self.rendered_of[message.id, message.variant] += 1
        wrong = _wrong(text)
        if wrong is None:
            return
        self.failed[message.id, message.variant] += 1
        key = (message.id, message.variant, *wrong)
        if key not in self.failures and len(self.failures) < DRY_RUN_FAILURES_MAX:
            self.failures[key] = RenderFailure(*key)
        failure = self.failures.get(key)
        if failure is not None:
            failure.recipients += 1
            if len(failure.examples) < DRY_RUN_EXAMPLES_MAX:
                failure.examples.append(member.recipient_id)


class LaunchRehearser:
    def __init__(
        self, store: Store, renderer: Renderer, unsubscriber: Unsubscriber, variables: Variables
    ) -> None:
        self._store = store
        self._renderer = renderer
        self._unsubscriber = unsubscriber
        self._variables = variables

    async def whole_audience(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        messages: Sequence[Message],
        audience_size: int,
    ) -> LaunchRehearsal:
        rehearsal = LaunchRehearsal(len(messages))
        for message in messages:
            for first in range(0, audience_size, DRY_RUN_WINDOW_ITEMS):
                if not rehearsal.left(message):
                    break
                last = min(first + DRY_RUN_WINDOW_ITEMS, audience_size) - 1
                members = await self._store.read(
                    previews.members(campaign_id, message, first, last)
                )
                await self._render(scope, message, members, rehearsal)
        return rehearsal

    async def left_over(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        jobs: Sequence[tuple[LeftOver, Message]],
    ) -> LaunchRehearsal:
        rehearsal = LaunchRehearsal(len({(each.id, each.variant) for _, each in jobs}))
        for job, message in jobs:
            if rehearsal.left(message):
                members = await self._store.read(previews.left_members(campaign_id, message, job))
                await self._render(scope, message, members, rehearsal)
        return rehearsal

    async def warnings(
        self, campaign_id: CampaignId, messages: Sequence[Message], audience_size: int, most: int
    ) -> list[str]:
        """Variables of a new campaign's templates that none of its first recipients has. Nothing is
        rendered, so that creating a campaign does not wait for its templates."""
        warnings = []
        last = min(most, audience_size) - 1
        for message in messages if audience_size else ():
            members = await self._store.read(previews.members(campaign_id, message, 0, last))
            columns = {
                name for member in members for name in msgspec.json.decode(member.attributes)
            }
            named = self._variables(message.subject or "") | self._variables(message.body)
            absent = sorted(named - columns - {UNSUBSCRIBE_URL})
            if members and absent:
                names = ", ".join(f"`{name}`" for name in absent[:REHEARSED_COLUMNS_MAX])
                known = ", ".join(sorted(columns)[:REHEARSED_COLUMNS_MAX]) or "none"
                which = f", variant {message.variant}" if message.variant else ""
                warnings.append(
                    f"message {message.id}{which}: {names} is in no column of the first"
                    f" {len(members):,} recipients; their columns are {known}"
                )
        return warnings

    async def _render(
        self,
        scope: Scope,
        message: Message,
        members: Sequence[Member],
        rehearsal: LaunchRehearsal,
    ) -> None:
        going = (await self._going(scope, message, members))[: rehearsal.left(message)]
        attributes = await self._attributes(scope, message, going)
        texts = await self._renderer.render(
            scope, message.subject, message.body, attributes, html=message.is_html
        )
        for member, text in zip(going, texts, strict=True):
            rehearsal.note(message, member, text)

    async def _going(
        self, scope: Scope, message: Message, members: Sequence[Member]
    ) -> list[Member]:
        kind, channel = address_kind(message.channel), message.channel.value
        kept = [
            each
            for each in members
            if screen(kind, each.address, each.invalid, each.duplicate) is None
        ]
        if kind is AddressKind.NONE or not kept:
            return kept
        addressed = [PlannedMessage(channel, each.address or "", message.purpose) for each in kept]
        out = await self._store.read(suppressions.suppressed_among(scope, addressed))
        return [each for each, asked in zip(kept, addressed, strict=True) if asked not in out]

    async def _attributes(
        self, scope: Scope, message: Message, members: Sequence[Member]
    ) -> list[str]:
        texts = [member.attributes for member in members]
        if message.channel is not Channel.EMAIL or not shows_link(message.subject, message.body):
            return texts
        url = await self._unsubscriber.url_of(scope, message.channel, PREVIEWED_ADDRESS)
        return texts if url is None else [with_link(text, url) for text in texts]


def _wrong(text: Rendered | RenderProblem) -> tuple[str, str] | None:
    if isinstance(text, RenderProblem):
        return RENDER_FAILED, text.detail
    if text.subject is not None and breaks_header(text.subject):
        return INVALID_HEADER, "the rendered subject contains a control character"
    return None
