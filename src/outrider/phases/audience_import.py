"""The phase `audience_import`: uploaded records become members, at the positions they came in.

A record that is wrong leaves a gap, so that those behind it are where a second try expects them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.documents import Problems
from outrider.documents.audience import AudienceReader
from outrider.domain.errors import Problem
from outrider.domain.ids import RecipientId
from outrider.domain.recipients import Recipient
from outrider.domain.texts import storable
from outrider.ports.phases import Desk, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.settings import ERROR_DETAIL_MAX_CHARACTERS, IMPORT_PROBLEMS_SHOWN_MAX


class AudienceImport:
    name = "audience_import"

    async def plan(self, desk: Desk) -> Sequence[PhaseJobPlan]:
        return [
            PhaseJobPlan(
                upload.record_count, {"chunk": upload.chunk, "first": upload.first_position}
            )
            for upload in await desk.uploads()
        ]

    async def process(self, desk: Desk, job: PhaseJob) -> PhaseResult:
        task: Mapping[str, Any] = job.detail
        first = int(task["first"])
        records = await desk.upload(int(task["chunk"]))
        message_ids = frozenset(message.id for message in desk.definition.messages)
        recipients: list[Recipient | None] = []
        taken: set[RecipientId] = set()
        shown: list[dict[str, object]] = []
        failed = 0
        for position, record in enumerate(records, start=first):
            found, problems = _read(record, message_ids)
            if found is None:
                failed += 1
                shown += [_shown(position, problem) for problem in problems[: _room(shown)]]
            elif found.id in taken:
                # Skipped, like one that is in another chunk: where chunks end must not matter.
                found = None
            else:
                taken.add(found.id)
            recipients.append(found)
        succeeded = await desk.add_members(first, recipients)
        skipped = len(records) - failed - succeeded
        return PhaseResult(succeeded, failed, skipped, {"problems": shown} if shown else {})


def _read(record: object, message_ids: frozenset[str]) -> tuple[Recipient | None, list[Problem]]:
    """One reader a record: an id that comes twice is no mistake here, as it is in a file."""
    problems = Problems("record")
    found = AudienceReader(problems, message_ids).read(record, "", "")
    return found, problems.error().problems if problems else []


def _room(shown: Sequence[object]) -> int:
    return IMPORT_PROBLEMS_SHOWN_MAX - len(shown)


def _shown(position: int, problem: Problem) -> dict[str, object]:
    # The path is a stranger's: the name of a field that should not be there.
    path = storable(problem.path[:ERROR_DETAIL_MAX_CHARACTERS])
    return {"position": position, "path": path, "message": problem.message}
