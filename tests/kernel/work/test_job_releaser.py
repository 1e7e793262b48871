"""The job releaser: a job that could not be finished is tried again, and nobody is called twice."""

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import StoreUnavailable
from outrider.kernel.transactions import run_jobs
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.settlement import settle_job
from outrider.kernel.work import job_releaser
from tests.support.noop_launches import noop_launch
from tests.support.whole_runs import QUICK, items_of, work_until_terminal


@pytest.mark.parametrize(
    ("error", "attempts"), [(OSError("the disk is full"), 1), (StoreUnavailable("restarting"), 0)]
)
async def test_a_job_that_cannot_be_settled_once_is_finished_later(
    noop_outrider: Outrider, monkeypatch: pytest.MonkeyPatch, error: Exception, attempts: int
) -> None:
    """An unavailable database costs the job none of its attempts."""
    errors = [error]

    def settle_once_broken(*arguments: object, **named: object) -> object:
        if errors:
            raise errors.pop()
        return settle_job(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(job_releaser, "JOB", QUICK)
    monkeypatch.setattr("outrider.kernel.delivery.campaign_delivery.settle_job", settle_once_broken)
    run_id = await noop_launch(noop_outrider, 20)
    accounting = await work_until_terminal(noop_outrider, run_id)
    (job,) = await noop_outrider.store.read(run_jobs.jobs_page(run_id, FIRST, 10))
    items = await items_of(noop_outrider, run_id)
    assert not errors, "it was not broken"
    assert (accounting.sent, job.attempts) == (20, attempts)
    assert {item.attempts for item in items.values()} == {1}
