"""A page of who works at the database, and what each holds; for the API and the command line."""

from datetime import timedelta

from outrider.api import cursors
from outrider.api.models.common import Page
from outrider.api.models.workers import WorkerAnswer
from outrider.bootstrap import Outrider
from outrider.kernel.transactions import workers


async def worker_page(outrider: Outrider, after: str | None, limit: int) -> Page[WorkerAnswer]:
    begin = cursors.decode(after, 1)[0] if after is not None else ""
    found = await outrider.store.read(workers.page(begin, limit))
    ids = [each.card.id for each in found]
    held = await outrider.store.read(workers.held_by(ids, outrider.limits.workers_held))
    since = outrider.clock.now() - timedelta(seconds=outrider.limits.worker_silent_seconds)
    return Page(
        items=[WorkerAnswer.of(each, held, since) for each in found],
        next=cursors.encode(ids[-1]) if len(ids) == limit else None,
    )
