"""The person eraser: destroys what identifies a person, wherever it is, and keeps what happened.

It begins with an opt-out, so that nothing is sent any more, and with a note of who it is; then it
passes through all tables in windows. Whoever begins the same erasure again completes one that was
killed, and so does the retention keeper. The note is removed with the last commit.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from outrider.domain.batches import windows
from outrider.domain.erasure import Identity, parties_of
from outrider.domain.errors import OutriderError
from outrider.domain.ids import Scope
from outrider.domain.people import Address, readings
from outrider.kernel.foundation import Foundation
from outrider.kernel.proof.file_eraser import FileEraser, FoundFile
from outrider.kernel.transactions import (
    erased_items,
    erased_people,
    erased_suppressions,
    erased_texts,
    erasures,
)
from outrider.kernel.transactions.erased_items import ErasedWindow
from outrider.kernel.transactions.erasures import Erasure, Undone
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.people import (
    ERASE_CAMPAIGNS_WINDOW,
    ERASE_EVENTS_WINDOW,
    ERASE_ITEMS_WINDOW,
    ERASE_PASSES,
    ERASE_REST_SHARE,
    ERASE_TEXTS_WINDOW,
    ERASE_UPLOADS_WINDOW,
    ERASE_WAIT_SECONDS,
)
from outrider.limits.proof import SALT_BYTES
from outrider.ports.store import Transaction

log = structlog.get_logger()

Result = TypeVar("Result")
OPEN_EVENTS = ("received", "failed")


@dataclass(slots=True)
class Erased:
    """What an erasure has done so far; of a dry run, what it would do."""

    id: str
    is_complete: bool = False
    addresses: list[Address] = field(default_factory=list)
    """Under which the person was known."""
    rows: Counter[str] = field(default_factory=Counter)
    """By table."""
    files: list[FoundFile] = field(default_factory=list)
    waiting: int = 0
    """Messages that are being called or in doubt, and others that tell of the person and are not
    sent yet: the erasure is completed once these have ended."""
    jobs: int = 0
    """Jobs that have read the person's addresses and are not done yet."""
    rules: list[str] = field(default_factory=list)
    """Workflow rules that name the person: they have to be changed by hand."""
    is_rewritten: bool = False
    """Whether the database's files have nothing left of it, as far as the store can say."""


@dataclass(slots=True)
class _Pass:
    """One way through all tables."""

    erasure: Erasure
    is_dry: bool
    rows: Counter[str] = field(default_factory=Counter)
    waiting: set[str] = field(default_factory=set)
    campaigns: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)

    def note(self, window: ErasedWindow) -> None:
        self.rows += window.counts
        self.waiting |= set(window.waiting)
        self.campaigns |= window.campaigns
        self.events |= set(window.events)


class PersonEraser:
    def __init__(
        self, foundation: Foundation, files: FileEraser, entropy: Callable[[int], bytes]
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._files = files
        self._entropy = entropy

    async def erase(self, scope: Scope, given: str, actor: str) -> Erased:
        erasure = await self._begun(scope, readings(given))
        if erasure is None:
            identity = await self._identified(scope, readings(given))
            erasure = Erasure(self._ids.new(), scope, actor, identity, self._clock.now())
            await self._store.write(erasures.begin(erasure, self._entropy(SALT_BYTES), self._ids))
        return await self._complete(erasure)

    async def find(self, scope: Scope, given: str) -> Erased:
        """What `erase` would do. Every transaction is undone."""
        identity = await self._identified(scope, readings(given))
        erasure = Erasure(self._ids.new(), scope, "", identity, self._clock.now())
        found = Erased(erasure.id, addresses=identity.all)
        passed = await self._pass(erasure, is_dry=True)
        found.rows, found.waiting = passed.rows, len(passed.waiting)
        found.rules = await self._store.read(erased_people.rules_naming(scope, identity))
        found.files = await self._files.find(identity, passed.campaigns)
        return found

    async def resume(self) -> int:
        """Go on with every erasure that is not complete; returns how many were completed."""
        completed = 0
        for erasure in await self._store.read(erasures.under_way()):
            try:
                completed += (await self._complete(erasure)).is_complete
            except OutriderError as error:
                log.warning("erasure_not_completed", erasure=erasure.id, error=error.message)
        return completed

    async def _begun(self, scope: Scope, tried: Sequence[Address]) -> Erasure | None:
        """The same erasure, if somebody began it."""
        keys = {(each.kind, each.key) for each in tried}
        for erasure in await self._store.read(erasures.of_workspace(scope)):
            if keys & {(each.kind, each.key) for each in erasure.identity.all}:
                return erasure
        return None

    async def _identified(self, scope: Scope, tried: Sequence[Address]) -> Identity:
        """Under which other addresses audiences and events know the same person."""
        identity = Identity(list(tried))
        async for campaign_ids in self._campaigns(scope):
            found = await self._store.read(erased_people.members(identity, campaign_ids))
            for member in found.members.values():
                identity.link(member.addresses)
            after: tuple[str, int] | None = (FIRST, -1)
            while after is not None:
                after = await self._store.read(
                    erased_people.link_uploads(identity, campaign_ids, after, ERASE_UPLOADS_WINDOW)
                )
        events = await self._store.read(erased_items.events_naming(scope, identity))
        items = await self._store.read(erased_people.single_items(scope, identity))
        for ids in windows(items, ERASE_ITEMS_WINDOW):
            events += await self._store.read(erased_items.events_of(ids))
        for window in windows(list(dict.fromkeys(events)), ERASE_EVENTS_WINDOW):
            for subject in await self._store.read(erased_items.subjects(scope, window)):
                for _, addresses in parties_of(subject):
                    identity.link(addresses)
        return identity

    async def _complete(self, erasure: Erasure) -> Erased:
        scope, identity = erasure.scope, erasure.identity
        done = Erased(erasure.id, addresses=identity.all)
        campaigns = set[str](await self._files.noted(erasure))
        for number in range(ERASE_PASSES):
            if number:
                await self._clock.sleep(ERASE_WAIT_SECONDS)
            passed = await self._pass(erasure, is_dry=False)
            done.rows += passed.rows
            done.waiting = len(passed.waiting)
            campaigns |= passed.campaigns
            done.jobs = await self._store.read(
                erased_people.jobs_held(sorted(campaigns), erasure.begun_at)
            )
            if not (done.waiting or done.jobs):
                break
        done.is_complete = not (done.waiting or done.jobs)
        done.files = await self._files.erase(erasure, is_last=done.is_complete)
        done.rules = await self._store.read(erased_people.rules_naming(scope, identity))
        if done.is_complete:
            now = self._clock.now()
            await self._store.write(erasures.complete(erasure, done.rows, self._ids, now))
        done.is_rewritten = await self._store.forget_removed()
        return done

    async def _pass(self, erasure: Erasure, *, is_dry: bool) -> _Pass:
        passing = _Pass(erasure, is_dry)
        scope, identity, now = erasure.scope, erasure.identity, self._clock.now()
        passing.rows["suppressions"] += await self._do(
            passing,
            erased_suppressions.keep(scope, identity, self._entropy(SALT_BYTES), erasure.begun_at),
        )
        async for campaign_ids in self._campaigns(scope):
            passing.note(
                await self._do(passing, erased_people.erase_members(erasure, campaign_ids, now))
            )
            await self._erase_uploads(passing, campaign_ids)
        await self._erase_items(passing)
        await self._erase_events(passing)
        passing.rows += await self._do(passing, erased_people.erase_digests(scope, identity, now))
        passing.rows += await self._do(passing, erased_people.short_lived(scope, identity))
        await self._erase_texts(passing)
        return passing

    async def _erase_texts(self, passing: _Pass) -> None:
        scope, identity = passing.erasure.scope, passing.erasure.identity
        for table in erased_texts.TABLES:
            after: str | None = FIRST
            while after is not None:
                window = await self._do(
                    passing,
                    erased_texts.erase_texts(table, scope, identity, after, ERASE_TEXTS_WINDOW),
                )
                passing.rows[table] += window.erased
                after = window.last

    async def _erase_uploads(self, passing: _Pass, campaign_ids: Sequence[str]) -> None:
        after: tuple[str, int] | None = (FIRST, -1)
        while after is not None:
            window = await self._do(
                passing,
                erased_people.erase_uploads(
                    passing.erasure, campaign_ids, after, ERASE_UPLOADS_WINDOW
                ),
            )
            passing.rows[erased_people.UPLOADS] += window.erased
            passing.campaigns |= window.campaigns
            after = window.last

    async def _erase_items(self, passing: _Pass) -> None:
        """Intents, messages of workflows, and answers of the person."""
        erasure, seen = passing.erasure, set[str]()
        while True:
            found = await self._store.read(
                erased_people.single_items(erasure.scope, erasure.identity)
            )
            fresh = [each for each in found if each not in seen]
            if not fresh:
                break
            seen |= set(fresh)
            for ids in windows(fresh, ERASE_ITEMS_WINDOW):
                script = erased_items.erase_single(erasure, ids, self._clock.now())
                passing.note(await self._do(passing, script))
        replies = await self._store.read(erased_items.replies(erasure.scope, erasure.identity))
        for receipts in windows(replies, ERASE_ITEMS_WINDOW):
            passing.rows += await self._do(passing, erased_items.erase_receipts(erasure, receipts))

    async def _erase_events(self, passing: _Pass) -> None:
        erasure = passing.erasure
        scope, identity = erasure.scope, erasure.identity
        named = await self._store.read(erased_items.events_naming(scope, identity))
        events = passing.events | set(named)
        for status in OPEN_EVENTS:
            after: str | None = FIRST
            while after is not None:
                page = await self._store.read(
                    erased_items.open_events(scope, identity, status, after, ERASE_EVENTS_WINDOW)
                )
                events |= set(page.own)
                after = page.last
        for ids in windows(sorted(events), ERASE_EVENTS_WINDOW):
            passing.note(await self._do(passing, erased_items.erase_events(erasure, ids)))

    async def _campaigns(self, scope: Scope) -> AsyncIterator[list[str]]:
        after = FIRST
        while page := await self._store.read(
            erased_people.campaigns_after(scope, after, ERASE_CAMPAIGNS_WINDOW)
        ):
            yield page
            after = page[-1]

    async def _do(self, passing: _Pass, script: Transaction[Result]) -> Result:
        """One window, with a rest after it."""
        began = self._clock.monotonic()
        if passing.is_dry:
            try:
                await self._store.write(erasures.undone(script))
            except Undone as undone:
                found: Result = undone.found  # type: ignore[assignment]
                return found
            raise AssertionError("a dry run never commits")
        result = await self._store.write(script)
        await self._clock.sleep((self._clock.monotonic() - began) * ERASE_REST_SHARE)
        return result
