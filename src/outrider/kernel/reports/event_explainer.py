"""The event explainer: describes what happened to a domain event, for everyone or one recipient.

It uses the event's own record of its routes, its digests and the ledger, so the explanation stays
correct when rules change later.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from outrider.domain.blocker_facts import Blocker
from outrider.domain.ids import Scope
from outrider.domain.times import rfc3339
from outrider.domain.workflows import Decision, EventStatus
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.reports.item_explainer import Explained, blocker_sentences, explain_item
from outrider.kernel.transactions import event_stories
from outrider.kernel.transactions.digests import EventDigest
from outrider.kernel.transactions.domain_events import StoredEvent
from outrider.kernel.transactions.event_stories import EventStory

Route = Mapping[str, Any]


class EventExplainer:
    def __init__(self, foundation: Foundation, blocker_finder: BlockerFinder) -> None:
        self._store = foundation.store
        self._limits = foundation.limits
        self._blocker_finder = blocker_finder

    async def explain(self, scope: Scope, event_id: str, recipient: str | None = None) -> list[str]:
        return (await self.explain_whole(scope, event_id, recipient)).sentences

    async def explain_whole(
        self, scope: Scope, event_id: str, recipient: str | None = None
    ) -> Explained:
        """`recipient` is an id or an address, in any capitalisation."""
        most = self._limits.event_items
        story = await self._store.read(event_stories.story(scope, event_id, recipient, most))
        blockers = await self._blockers(scope, story)
        return Explained([*explain_event(story, recipient), *blocker_sentences(blockers)], blockers)

    async def _blockers(self, scope: Scope, story: EventStory) -> list[Blocker]:
        """Of the event itself until it is routed, then of its messages that are shown."""
        if story.event.status == EventStatus.RECEIVED:
            return await self._blocker_finder.of_event(story.event.created_at)
        return await self._blocker_finder.of_items(scope, [item for item, _ in story.items])


def explain_event(story: EventStory, recipient: str | None = None) -> list[str]:
    sentences = _event(story.event)
    for route in _routes(story.event):
        sentences += [_route(route), *without_address(route)]
    if story.event.status == EventStatus.FAILED:
        sentences.append("Once that is fixed, run `outrider event reroute` to process it again.")
    explained = {item.id: explain_item(item, attempts) for item, attempts in story.items}
    for digest in story.digests:
        sentences.append(_digest(digest))
        sentences += explained.pop(digest.outbox_id, []) if digest.outbox_id else []
    for of_item in explained.values():
        sentences += of_item
    if story.not_shown:
        sentences.append(
            f"{story.not_shown:,} more messages were created; name a recipient to see theirs."
        )
    if recipient is not None and not story.items and not story.digests:
        sentences.append(_nothing_for(story.event, recipient))
    return sentences


def _event(event: StoredEvent) -> list[str]:
    before = f"; it happened at {rfc3339(event.occurred_at)}"
    sentences = [
        f"The event {event.event_id} ({event.trigger}) was received at"
        f" {rfc3339(event.created_at)}{before if event.occurred_at != event.created_at else ''}."
    ]
    match EventStatus(event.status):
        case EventStatus.RECEIVED if event.error:
            sentences.append(f"It could not be processed yet and will be retried: {event.error}.")
        case EventStatus.RECEIVED:
            sentences.append("It is waiting to be processed.")
        case EventStatus.FAILED if not any(map(_has_failed, _routes(event))):
            sentences.append(f"It could not be processed: {event.error}.")
        case EventStatus.ROUTED if not _routes(event):
            sentences.append(
                "Its trigger has neither a rule nor a legacy sender, so nothing was sent."
            )
        case _:
            pass
    return sentences


def _route(route: Route) -> str:
    where = f"{route['channel']} to {route['audience']}".capitalize()
    made = enqueued(route)
    match Decision(route["decision"]):
        case Decision.STEPS if route.get("why"):
            return f"{where}: {route['why']}, so nothing was sent."
        case Decision.STEPS:
            return f"{where}: the rule's steps were enqueued and created {made}."
        case Decision.SUPPRESSED:
            return f"{where}: the rule is disabled, so nothing was sent."
        case Decision.LEGACY:
            return (
                f"{where}: there is no rule, so the legacy sender {route['sender']} was used"
                f" and created {made}."
            )
        case Decision.LEGACY_FALLBACK:
            return (
                f"{where}: the rule could not be enqueued ({route.get('why')}), so the legacy"
                f" sender {route['sender']} was used and created {made}."
            )
        case Decision.FAILED:
            return f"{where}: nothing was enqueued ({route.get('why')})."


def enqueued(route: Route) -> str:
    """How much a route created, in words."""
    items, collected = route.get("items", 0), route.get("collected", 0)
    made = "no message" if not items else f"{items:,} message{'s' if items > 1 else ''}"
    if collected:
        made += f" and {collected:,} {'digest entries' if collected > 1 else 'digest entry'}"
    return made


def without_address(route: Route) -> list[str]:
    """Why recipients that a route includes got nothing, one sentence each."""
    where = f"{route['channel']} to {route['audience']}".capitalize()
    return [
        f"{where}: the event has no {route['channel']} address of {each}, so no message was created"
        " for them."
        for each in route.get("withoutAddress", ())
    ]


def _digest(digest: EventDigest) -> str:
    who = f"{digest.recipient_id} ({digest.address})"
    if digest.closed_at is None:
        failed = f"; creating it has failed so far: {digest.error}" if digest.error else ""
        return (
            f"For {who} it is being collected for a digest due at {rfc3339(digest.due_at)}{failed}."
        )
    closed = f"For {who} it was collected for a digest that was created at"
    if digest.outbox_id is None:
        return f"{closed} {rfc3339(digest.closed_at)} without a message: {digest.error}."
    return f"{closed} {rfc3339(digest.closed_at)}."


def _nothing_for(event: StoredEvent, recipient: str) -> str:
    if event.status == EventStatus.RECEIVED:
        return f"Nothing is planned for {recipient} yet."
    if any(recipient.lower() == str(each).lower() for each in _without_address(event)):
        return f"Nothing was planned for {recipient}: the event has no address for them."
    return f"Nothing was planned for {recipient}: no route includes them."


def _without_address(event: StoredEvent) -> list[str]:
    return [each for route in _routes(event) for each in route.get("withoutAddress", ())]


def _routes(event: StoredEvent) -> list[Route]:
    routes: list[Route] = msgspec.json.decode(event.routes) if event.routes else []
    return routes


def _has_failed(route: Route) -> bool:
    return bool(route["decision"] == Decision.FAILED)
