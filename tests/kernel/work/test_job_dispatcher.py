"""How many jobs a worker has at once: what is being settled leaves its place, up to a bound."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.bootstrap import open_outrider
from outrider.domain.states import Channel
from outrider.ports.store import Result, Store, Transaction
from outrider.settings import Settings, StateStoreSettings
from outrider.testing.launches import launch, message, people, registry, target, until_terminal
from outrider.testing.slow_store import SlowStore, script_name
from tests.support.controls import until
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, working

JOBS, JOB_ITEMS = 8, 5


class HeldStore(SlowStore):
    """Settles nothing before it is told to."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.settling = 0
        self.go_on = asyncio.Event()

    async def write(self, transaction: Transaction[Result]) -> Result:
        if script_name(transaction) == "settle_job":
            self.settling += 1
            await self.go_on.wait()
        return await super().write(transaction)


@pytest.mark.parametrize(("in_parallel", "held"), [(1, 1), (2, 3), (4, 6)])
async def test_half_as_many_additional_jobs_start_while_others_are_settled(
    database: str, tmp_path: Path, in_parallel: int, held: int
) -> None:
    path = tmp_path / "registry.json"
    path.write_bytes(registry(target("sms", "noop", "noop:")))
    settings = Settings(
        database_url=database,
        registry=path,
        spool=tmp_path / "spool",
        state_store=StateStoreSettings.model_validate({"writeLatencyBudgetMs": 60_000}),
    )
    limits = replace(IMPATIENT, jobs_in_parallel=in_parallel)
    async with open_outrider(settings, limits=limits) as outrider:
        await outrider.store.migrate()
        store = HeldStore(outrider.store)
        outrider.store = store
        run_id = await launch(
            outrider, [message(Channel.SMS, "sms")], people(JOBS * JOB_ITEMS), batch_size=JOB_ITEMS
        )
        async with working(outrider):
            await until(lambda: store.settling == held)
            async with raw_sql(database) as raw:
                locked = await raw.run("SELECT count(*) FROM job_queue WHERE status = 'locked'")
                sent = await raw.run("SELECT count(*) FROM channel_outbox WHERE status = 'sent'")
            assert (locked[0][0], sent[0][0]) == (held, held * JOB_ITEMS)
            store.go_on.set()
            accounting = await until_terminal(outrider, run_id)
        assert accounting.sent == JOBS * JOB_ITEMS
