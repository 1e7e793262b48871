"""The phase `audience_import`: uploaded records become members, at their original positions.

A bad record leaves a gap, so that later ones stay where a second try expects them. Of records with
the same id the first counts, in whichever order their chunks are imported: duplicates are
determined before the import starts.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.documents import Problems
from outrider.documents.audience import AudienceReader
from outrider.domain.errors import Problem
from outrider.domain.ids import RecipientId
from outrider.domain.recipients import Recipient
from outrider.domain.texts import storable
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS
from outrider.limits.phases import IMPORT_PROBLEMS_SHOWN_MAX
from outrider.ports.phases import AudienceChunk, PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult


class AudienceImport:
    name = "audience_import"

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:
        repeated = await context.repeated_uploads()
        return [_job(upload, repeated) for upload in await context.uploads()]

    async def process(self, context: PhaseContext, job: PhaseJob) -> PhaseResult:
        task: Mapping[str, Any] = job.detail
        first = int(task["first"])
        records = await context.upload(int(task["chunk"]))
        message_ids = frozenset(message.id for message in context.definition.messages)
        recipients: list[Recipient | None] = []
        repeated = {
            position for begin, end in task.get("repeated", ()) for position in range(begin, end)
        }
        taken: set[RecipientId] = set()
        shown: list[dict[str, object]] = []
        failed = 0
        for position, record in enumerate(records, start=first):
            found, problems = _read(record, message_ids)
            if found is None:
                failed += 1
                shown += [_shown(position, problem) for problem in problems[: _room(shown)]]
            elif position in repeated or found.id in taken:
                # Skipped, wherever the first one is: chunk boundaries must not matter.
                found = None
            else:
                taken.add(found.id)
            recipients.append(found)
        succeeded = await context.add_members(first, recipients)
        skipped = len(records) - failed - succeeded
        return PhaseResult(succeeded, failed, skipped, {"problems": shown} if shown else {})


def _job(upload: AudienceChunk, repeated: Sequence[int]) -> PhaseJobPlan:
    """The job of one chunk, with the ranges of its duplicate records: a file that was uploaded
    twice is a single range."""
    begin, end = upload.first_position, upload.first_position + upload.record_count
    ranges: list[list[int]] = []
    for position in repeated[bisect_left(repeated, begin) : bisect_left(repeated, end)]:
        if ranges and ranges[-1][1] == position:
            ranges[-1][1] += 1
        else:
            ranges.append([position, position + 1])
    detail: dict[str, object] = {"chunk": upload.chunk, "first": begin}
    return PhaseJobPlan(upload.record_count, detail | ({"repeated": ranges} if ranges else {}))


def _read(record: object, message_ids: frozenset[str]) -> tuple[Recipient | None, list[Problem]]:
    """One reader per record: a repeated id is not a mistake here, as it is in a file."""
    problems = Problems("record")
    found = AudienceReader(problems, message_ids).read(record, "", "")
    return found, problems.error().problems if problems else []


def _room(shown: Sequence[object]) -> int:
    return IMPORT_PROBLEMS_SHOWN_MAX - len(shown)


def _shown(position: int, problem: Problem) -> dict[str, object]:
    # The path is untrusted: it contains the name of the unexpected field.
    path = storable(problem.path[:ERROR_DETAIL_MAX_CHARACTERS])
    return {"position": position, "path": path, "message": problem.message}
