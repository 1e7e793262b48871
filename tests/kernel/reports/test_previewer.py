"""The previewer: what one person would read, and how many would be reached; nothing is sent."""

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import NotFound
from outrider.domain.ids import DEFAULT_SCOPE
from tests.support.noop_launches import campaign_of, noop_launch


async def test_a_preview_is_the_persons_own_text(noop_outrider: Outrider) -> None:
    run_id = await noop_launch(noop_outrider, body="Hi {{ firstName }}")
    campaign_id = await campaign_of(noop_outrider, run_id)
    seen = await noop_outrider.previewer.preview(DEFAULT_SCOPE, campaign_id, "lead-2")
    assert (seen["body"], seen["problem"], seen["skippedBecause"]) == ("Hi Person 2", None, None)
    with pytest.raises(NotFound):
        await noop_outrider.previewer.preview(DEFAULT_SCOPE, campaign_id, "nobody")
    with pytest.raises(NotFound, match="no message 'other'"):
        await noop_outrider.previewer.preview(DEFAULT_SCOPE, campaign_id, None, "other")
