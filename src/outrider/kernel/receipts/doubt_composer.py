"""The doubt composer: what a provider is asked about items in doubt, with their content again.

Bodies are not in the ledger, so a campaign's message is rendered from the same asset and attributes
as before; single messages have their payload.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec
from cachetools import LRUCache

from outrider.domain.campaigns import Asset
from outrider.domain.evidence import Match
from outrider.domain.ids import AssetId, OutboxId
from outrider.domain.states import Channel
from outrider.domain.unsubscribe import shows_link, with_link
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.delivery.screens import readable
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import campaigns, doubt_checks
from outrider.kernel.transactions.doubt_checks import ClaimedDoubt
from outrider.limits.receipts import DOUBT_ASSETS_REMEMBERED_MAX
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.renderer import Renderer, RenderProblem

INTENT = "intent"


class DoubtComposer:
    def __init__(
        self, foundation: Foundation, renderer: Renderer, unsubscriber: Unsubscriber
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._skew = timedelta(seconds=foundation.limits.look_up_skew_seconds)
        self._renderer = renderer
        self._unsubscriber = unsubscriber
        self._assets: LRUCache[str, Asset] = LRUCache(DOUBT_ASSETS_REMEMBERED_MAX)

    async def questions(
        self, doubts: Sequence[ClaimedDoubt], match: Match
    ) -> dict[OutboxId, LookUpQuestion]:
        """Those that can be asked: a text that no longer renders cannot be compared."""
        if match is Match.REFERENCE:
            return {each.id: self._question(each) for each in doubts}
        asked: dict[OutboxId, LookUpQuestion] = {}
        rendered = defaultdict[str, list[ClaimedDoubt]](list)
        for each in doubts:
            if each.asset_id is not None:
                rendered[each.asset_id].append(each)
            elif (question := self._of_payload(each)) is not None:
                asked[each.id] = question
        for asset_id, same in rendered.items():
            asked |= await self._of_asset(asset_id, same)
        return asked

    def _question(self, doubt: ClaimedDoubt, **content: object) -> LookUpQuestion:
        now = self._clock.now()
        after, before = doubt.created_at - self._skew, now + self._skew
        return LookUpQuestion(
            doubt.reference, after, before, now, doubt.address or "",
            **content,  # type: ignore[arg-type]
        )  # fmt: skip

    def _of_payload(self, doubt: ClaimedDoubt) -> LookUpQuestion | None:
        if doubt.payload is None:
            return None
        if doubt.origin == INTENT:
            return self._question(doubt, payload=msgspec.json.decode(doubt.payload))
        content = readable(doubt.payload)
        if isinstance(content, str):
            return None
        return self._question(
            doubt, subject=content.subject, body=content.body, is_html=content.html
        )

    async def _of_asset(
        self, asset_id: str, doubts: Sequence[ClaimedDoubt]
    ) -> Mapping[OutboxId, LookUpQuestion]:
        asset = self._assets.get(asset_id)
        if asset is None:
            asset = self._assets[asset_id] = await self._store.read(
                campaigns.asset(AssetId(asset_id))
            )
        known = await self._store.read(doubt_checks.attributes_of([each.id for each in doubts]))
        found = [each for each in doubts if each.id in known]
        if not found:
            return {}
        message, scope = asset.message, found[0].scope
        attributes = [known[each.id] for each in found]
        urls = await self._unsubscriber.urls() if message.channel is Channel.EMAIL else None
        if urls is not None and shows_link(message.subject, message.body):
            topic = message.purpose.topic
            attributes = [
                with_link(given, urls.url_of(scope, message.channel, each.address or "", topic))
                for given, each in zip(attributes, found, strict=True)
            ]
        texts = await self._renderer.render(
            scope, message.subject, message.body, attributes, html=message.is_html
        )
        return {
            each.id: self._question(
                each,
                subject=text.subject,
                body=text.body,
                is_html=message.is_html,
                head=message.head,
            )
            for each, text in zip(found, texts, strict=True)
            if not isinstance(text, RenderProblem)
        }
