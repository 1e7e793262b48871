"""The job processor: holds a job under its lease, has it done, and settles it."""

from outrider.bootstrap import Outrider
from outrider.domain.states import JobStatus
from outrider.kernel.transactions import lost_jobs, run_jobs
from outrider.kernel.transactions.paging import FIRST
from outrider.testing.launches import observe
from tests.support.noop_launches import noop_launch
from tests.support.whole_runs import work_until_terminal


async def test_a_processed_job_is_settled_and_no_longer_held(
    noop_outrider: Outrider,
) -> None:
    run_id = await noop_launch(noop_outrider, 250)
    accounting = await work_until_terminal(noop_outrider, run_id)
    run, _ = await observe(noop_outrider, run_id)
    done = await noop_outrider.store.read(run_jobs.jobs_page(run_id, FIRST, 10))
    assert accounting.sent == 250
    assert [JobStatus(job.status) for job in done] == [JobStatus.COMPLETED] * 3
    assert {job.attempts for job in done} == {0}
    assert await noop_outrider.store.read(lost_jobs.lock_holders()) == []
    assert run.finished_at is not None
