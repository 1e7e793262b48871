"""A page of suppressions, as the server and the command line show it."""

from outrider.api import cursors
from outrider.api.models.admin import SuppressionAnswer
from outrider.api.models.common import Page
from outrider.bootstrap import Outrider
from outrider.domain.ids import Scope
from outrider.kernel.transactions.suppressions import FIRST


async def suppressions_page(
    outrider: Outrider, scope: Scope, limit: int, after: str | None
) -> Page[SuppressionAnswer]:
    channel, address, topic = cursors.decode(after, 3) if after is not None else FIRST
    found = await outrider.suppression_keeper.page(scope, (channel, address, topic), limit)
    last = found[-1] if len(found) == limit else None
    return Page(
        items=[SuppressionAnswer.of(each) for each in found],
        next=cursors.encode(last.channel, last.address, last.topic or "") if last else None,
    )
