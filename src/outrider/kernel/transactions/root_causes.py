"""Why a step or a run failed, in words and by category, from a sample of its failures.

A provider's reason is a code of its taxonomy. Its free text may name people and stays with the
item, because the log of a run leaves this system.
"""

import re
from collections.abc import Mapping

from outrider.domain.ids import JobId, RunId
from outrider.domain.jobs import JOB_DEAD, Tally
from outrider.domain.states import JobStatus
from outrider.limits.campaigns import ROOT_CAUSE_SAMPLE_ITEMS
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS
from outrider.ports.store import Rows, Transaction, ask

ERRORS_OF_OURS = frozenset({"render_failed", "invalid_header"})
"""Their errors name variables, and no people."""

PROVIDER, CONTENT = "PROVIDER", "CONTENT"
HANDLER, INFRASTRUCTURE, DOUBT = "HANDLER", "INFRASTRUCTURE", "DOUBT"

_WORD = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def step_error(
    run_id: RunId, job_id: JobId, ended: JobStatus, tally: Tally, detail: Mapping[str, object]
) -> Transaction[dict[str, object]]:
    """A dead job may be retried; what a provider refused would be refused again."""
    if ended is JobStatus.DEAD:
        message = "it has no attempts left"
        if kind := (yield from _last_error(job_id)):
            message += f"; the last one ended with {kind}"
        return _error(INFRASTRUCTURE, "JOB_DEAD", message, retryable=True)
    if tally.in_doubt:
        message = f"stopped while {tally.in_doubt} of its {tally.intended} items were in doubt"
        return _error(DOUBT, "ITEMS_IN_DOUBT", message)
    message = f"none of its {tally.intended} items succeeded"
    rows = yield from ask(
        "failure_sample_of_job", run_id=run_id, job_id=job_id, most=ROOT_CAUSE_SAMPLE_ITEMS
    )
    reason = _most_common(rows)
    if reason is not None:
        message += f", most of them because of {reason}"
        return _error(_category(reason), "ITEMS_FAILED", message, reason=reason)
    reason = _word(detail.get("reason"))
    if reason is not None:
        message += f" ({reason})"
    return _error(HANDLER, "ITEMS_FAILED", message, reason=reason)


def run_error(run_id: RunId, accounting: Mapping[str, int]) -> Transaction[dict[str, object]]:
    """The phase shows the cause, without a search through its run."""
    rows = yield from ask("failure_sample", run_id=run_id, most=ROOT_CAUSE_SAMPLE_ITEMS)
    reason = _most_common(rows)
    if reason is not None:
        failed, intended = accounting["failed"], accounting["intended"]
        message = f"{failed:,} of {intended:,} messages failed, most of them with {reason}"
        error = next(row[1] for row in rows if row[0] == reason)
        if error is not None and reason in ERRORS_OF_OURS:
            message = f"{message}: {error}"[:ERROR_DETAIL_MAX_CHARACTERS]
        return _error(_category(reason), "ITEMS_FAILED", message, reason=reason)
    found = yield from ask("failed_job_of_run", run_id=run_id)
    if not found:
        return _error(INFRASTRUCTURE, "RUN_FAILED", "nothing was done")
    job_id, status, count = found[0]
    jobs = f"{count:,} {'job' if count == 1 else 'jobs'}"
    if status == JobStatus.DEAD:
        message = f"{jobs} given up"
        if kind := (yield from _last_error(job_id)):
            message += f"; the last attempt of one ended with {kind}"
        return _error(INFRASTRUCTURE, "JOB_DEAD", message, retryable=True, reason=JOB_DEAD)
    message = f"{jobs} failed without a single successful item"
    return _error(HANDLER, "STEPS_FAILED", message)


def _error(
    category: str, code: str, message: str, *, retryable: bool = False, reason: str | None = None
) -> dict[str, object]:
    error: dict[str, object] = {
        "category": category,
        "code": code,
        "message": message,
        "retryable": retryable,
    }
    if reason is not None:
        error["reason"] = reason
    return error


def _category(reason: str) -> str:
    return CONTENT if reason in ERRORS_OF_OURS else PROVIDER


def _most_common(rows: Rows) -> str | None:
    known = [row for row in rows if row[0] is not None]
    return str(max(known, key=lambda row: row[2])[0]) if known else None


def _last_error(job_id: JobId) -> Transaction[str | None]:
    """Only the kind of error that the job failed with."""
    rows = yield from ask("last_error_of_job", job_id=job_id)
    return _word(str(rows[0][0]).partition(":")[0]) if rows and rows[0][0] else None


def _word(given: object) -> str | None:
    return given if isinstance(given, str) and _WORD.fullmatch(given) else None
