"""Claims whatever is due, for tests without a worker: lanes first, then jobs of every group."""

from datetime import datetime

from outrider.domain.submission import BATCH, REALTIME
from outrider.kernel.transactions import claims
from outrider.kernel.transactions.claims import Claim, Claimer, WantedLanes
from outrider.ports.store import Store

GROUPS_MAX = 1_000


async def claim_any(store: Store, claimer: Claimer, most: int, now: datetime) -> list[Claim]:
    claimed: list[Claim] = []
    for mode in (REALTIME, BATCH):
        if len(claimed) < most:
            room = most - len(claimed)
            claimed += await store.write(
                claims.claim_lanes(claimer, mode, WantedLanes(), room, now)
            )
    for group in await store.read(claims.queue_groups("", GROUPS_MAX)):
        if len(claimed) < most:
            wanted = {group.name: most - len(claimed)}
            claimed += await store.write(claims.claim(claimer, wanted, now))
    return claimed
