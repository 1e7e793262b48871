"""The file eraser: rewrites artifacts of campaigns without what identifies a person.

A line of results is known by its message. Elsewhere, addresses are replaced where they stand.
"""

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from outrider.domain.erasure import ERASED, Identity
from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import artifacts, erasures
from outrider.kernel.transactions.artifacts import ArtifactRecord
from outrider.kernel.transactions.erasures import Erasure
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.retirement import BUNDLE_NAME
from outrider.limits.people import ERASE_CAMPAIGNS_WINDOW
from outrider.ports.artifacts import ArtifactStore

RESULTS = "results.csv"
_ID_CHARACTERS = 36
_PRIVATE = {1: ERASED, 2: "", 11: ""}
"""Columns of the results that say who it is, or quote a provider, and what they say then."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    artifact_id: str
    run_id: str
    name: str


class FileEraser:
    def __init__(self, foundation: Foundation, store: ArtifactStore) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._artifacts = store

    async def erase(self, erasure: Erasure, *, is_last: bool) -> list[FoundFile]:
        """Rewrite the files of all campaigns that are noted. Unless it is the last time, they stay
        noted: what goes on in them may still write the person's addresses."""
        done: list[FoundFile] = []
        for campaign_id in await self.noted(erasure):
            items = await self._store.read(erasures.erased_items(erasure, campaign_id))
            async for artifact in self._of(campaign_id):
                if await self._rewrite(erasure, campaign_id, artifact, items):
                    done.append(_found(artifact))
            if is_last:
                await self._store.write(erasures.forget_files(erasure, campaign_id))
        return done

    async def noted(self, erasure: Erasure) -> list[CampaignId]:
        found: list[CampaignId] = []
        while page := await self._store.read(
            erasures.files_after(erasure, found[-1] if found else FIRST, ERASE_CAMPAIGNS_WINDOW)
        ):
            found += page
        return found

    async def find(self, identity: Identity, campaign_ids: Iterable[str]) -> list[FoundFile]:
        """Those that `erase` would rewrite."""
        found = []
        for campaign_id in sorted(campaign_ids):
            async for artifact in self._of(CampaignId(campaign_id)):
                if await self._is_changed(artifact, lambda line: _scrubbed(line, identity, set())):
                    found.append(_found(artifact))
        return found

    async def _of(self, campaign_id: CampaignId) -> AsyncIterator[ArtifactRecord]:
        after = FIRST
        while page := await self._store.read(
            artifacts.page(campaign_id, after, ERASE_CAMPAIGNS_WINDOW)
        ):
            for artifact in page:
                # A bundle has nothing but salted hashes in it, and is signed.
                if artifact.name != BUNDLE_NAME:
                    yield artifact
            after = page[-1].id

    async def _rewrite(
        self, erasure: Erasure, campaign_id: CampaignId, artifact: ArtifactRecord, items: set[str]
    ) -> bool:
        def change(line: bytes) -> bytes:
            return _scrubbed(line, erasure.identity, items)

        if not await self._is_changed(artifact, change):
            return False
        stored = await self._artifacts.put(
            artifact.run_id, artifact.name, self._changed(artifact, change)
        )
        await self._store.write(
            artifacts.save(
                erasure.scope, campaign_id, artifact.run_id, artifact.id, artifact.name,
                artifact.media_type, stored, artifact.created_at,
            )
        )  # fmt: skip
        return True

    async def _is_changed(self, artifact: ArtifactRecord, change: Callable[[bytes], bytes]) -> bool:
        try:
            async for line in _lines(self._artifacts.read(artifact.reference)):
                if change(line) != line:
                    return True
        except NotFound:
            # It has been removed since.
            return False
        return False

    async def _changed(
        self, artifact: ArtifactRecord, change: Callable[[bytes], bytes]
    ) -> AsyncIterator[bytes]:
        async for line in _lines(self._artifacts.read(artifact.reference)):
            yield change(line)


def _found(artifact: ArtifactRecord) -> FoundFile:
    return FoundFile(artifact.id, artifact.run_id, artifact.name)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).splitlines(keepends=True) or [b""]
        for line in lines:
            yield line
    if rest:
        yield rest


def _scrubbed(line: bytes, identity: Identity, items: set[str]) -> bytes:
    text = line.decode(errors="surrogateescape")
    if items and text[1 : _ID_CHARACTERS + 1] in items:
        text = _nobody(text)
    return identity.scrubbed(text).encode(errors="surrogateescape")


def _nobody(text: str) -> str:
    """A line of the results without who it was."""
    cells = next(csv.reader([text]))
    for column, instead in _PRIVATE.items():
        if column < len(cells):
            cells[column] = instead
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerow(cells)
    return written.getvalue()
