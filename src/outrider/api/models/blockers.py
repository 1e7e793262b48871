"""Why something is not moving, on the wire."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from outrider.api.models.common import Answer
from outrider.domain.blocker_facts import Blocker, BlockerCode


class BlockerAnswer(Answer):
    """What it waits for, since when, and what to do."""

    code: BlockerCode
    since: datetime
    message: str = Field(description="In words, for people.")
    hint: str = Field(description="What to do about it.")
    submission_target: str | None = Field(description="The target that it waits for, if any.")

    @classmethod
    def of(cls, blocker: Blocker) -> "BlockerAnswer":
        return cls(
            code=blocker.code,
            since=blocker.since,
            message=blocker.message,
            hint=blocker.hint,
            submission_target=blocker.submission_target,
        )


def blocker_answers(blockers: Sequence[Blocker]) -> list[BlockerAnswer]:
    return [BlockerAnswer.of(each) for each in blockers]
