"""The job claimer: what is realtime is claimed before what is batch."""

from dataclasses import replace
from pathlib import Path

from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Sandbox, references_delivered
from outrider.kernel.transactions import ledger_items
from outrider.testing.launches import launch, message, people, target, until_terminal
from tests.support.whole_runs import IMPATIENT, MOST, opened, working

ONE_PLACE = replace(IMPATIENT, jobs_in_parallel=1)
JOB_ITEMS = 5


async def test_a_realtime_campaign_goes_before_a_batch_one_that_was_there_first(
    database: str, tmp_path: Path
) -> None:
    """M6: with one place at work for both, the order of calls is the modes'."""
    log_path = tmp_path / "provider.ndjson"
    async with Sandbox(log_path=log_path) as sandbox:
        batch = target("sms.batch", "sms", sandbox.http_url, mode="batch")
        realtime = target("sms.realtime", "sms", sandbox.http_url)
        async with opened(database, tmp_path, batch, realtime, limits=ONE_PLACE) as outrider:

            async def launched(name: str, count: int) -> RunId:
                sms = message(Channel.SMS, name)
                return await launch(outrider, [sms], people(count), batch_size=JOB_ITEMS)

            slow, urgent = await launched("sms.batch", 40), await launched("sms.realtime", 20)
            async with working(outrider):
                for run_id in (slow, urgent):
                    await until_terminal(outrider, run_id)
            rows = await outrider.store.read(
                ledger_items.items_of_run(DEFAULT_SCOPE, urgent, most=MOST)
            )
    called = list(references_delivered(log_path))
    assert len(called) == 60
    last = max(called.index(row.reference) for row in rows)
    # At most one job of the batch campaign, begun already, may have been before it.
    assert last < 20 + JOB_ITEMS
