"""The run explainer: describes in sentences the state of a run, and why it is not moving."""

from collections.abc import Collection, Sequence

from outrider.domain.blocker_facts import Blocker, JobsAtTarget
from outrider.domain.blocker_words import repoint_hint, where_of
from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.ids import RunId, Scope
from outrider.domain.states import ItemStatus, JobStatus
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.transactions import run_pictures
from outrider.kernel.transactions.run_pictures import Picture


class RunExplainer:
    def __init__(self, foundation: Foundation, blocker_finder: BlockerFinder) -> None:
        self._store = foundation.store
        self._blocker_finder = blocker_finder

    async def explain(self, scope: Scope, run_id: RunId) -> list[str]:
        picture = await self._store.read(run_pictures.picture(scope, run_id))
        (judged,) = await self._blocker_finder.judge([run_id])
        return explain_run(picture, judged.blockers, judged.at_targets)


def explain_run(
    picture: Picture, blockers: Sequence[Blocker] = (), at_targets: Sequence[JobsAtTarget] = ()
) -> list[str]:
    run, accounting, jobs, reasons, held, rollout = picture
    sentences = [
        f"The run is {run.status}: of {run.intended:,} intended items, {accounting.sent:,} were"
        f" sent, {accounting.failed:,} failed and {accounting.skipped:,} were skipped."
    ]
    sentences += _deliveries(accounting.delivery)
    if accounting.waiting:
        locked = sum(count.jobs for count in jobs if count.status == JobStatus.LOCKED)
        doing = f"{locked} jobs are with workers" if locked else "no worker has a job of it"
        sentences.append(f"{accounting.waiting:,} items are waiting; {doing}.")
    sentences += [
        f"Step {step.step} of its rollout, {step.percent:g} % of the audience, is {step.state}:"
        f" {step.items:,} items."
        for step in rollout
    ]
    sentences += [f"{each.message} {each.hint}" for each in blockers]
    sentences += [
        f"{each.items:,} recipients waited for the workspace's policy ({each.waits_for}) before"
        " anything was sent to them."
        for each in held
        if not each.waiting
    ]
    sentences += _routes(run.id, {each.submission_target for each in blockers}, at_targets)
    if accounting.in_doubt:
        so = "" if run.finished_at else ", which keeps the run open"
        sentences.append(
            f"{accounting.in_doubt:,} items are in doubt{so}: `outrider doubts list` shows them."
        )
    sentences += [
        f"{reason.items:,} {reason.status} items: {reason.reason}."
        for reason in reasons
        if reason.status != ItemStatus.QUEUED
    ]
    sentences += [
        f"{count.jobs} jobs are {count.status} after {count.attempts} lost attempts:"
        f" {count.last_error}."
        for count in jobs
        if count.attempts and count.last_error
    ]
    return sentences


def _routes(
    run_id: RunId, blocked: Collection[str | None], at_targets: Sequence[JobsAtTarget]
) -> list[str]:
    """Where its messages go, of targets that are not in a blocker already."""
    sentences = []
    for jobs in at_targets:
        if jobs.gateway_url is not None and jobs.door is None and jobs.paused is None:
            sentences.append(f"Its messages go to {where_of(jobs)}.")
        if jobs.is_elsewhere and (jobs.door is None or jobs.submission_target not in blocked):
            sentences.append(repoint_hint(jobs, run_id))
    return sentences


def _deliveries(counts: DeliveryCounts | None) -> list[str]:
    if counts is None or not counts.reported:
        return []
    sent = counts.reported + counts.unknown
    said = ", ".join(f"{items:,} {name}" for name, items in counts.named().items() if items)
    return [f"Receipts report of {counts.reported:,} of {sent:,} sent messages: {said}."]
