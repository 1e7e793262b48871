"""A run moved to its targets' current addresses in the registry, on the wire."""

from collections.abc import Sequence

from pydantic import Field

from outrider.api.models.common import Answer
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.kernel.transactions.repointing import Repointed


class RepointedTarget(Answer):
    submission_target: str
    from_url: str | None = Field(description="Null for other workspaces than the default one.")
    to_url: str | None = Field(description="Null for other workspaces than the default one.")
    jobs: int = Field(description="Jobs moved, with their items that no provider can have.")
    kept: int = Field(
        description="Waiting items that may have arrived, and stay where they were attempted."
    )
    busy_jobs: int = Field(description="Jobs held by a worker, and therefore not moved yet.")


class RepointedAnswer(Answer):
    run_id: str
    changed: bool
    targets: list[RepointedTarget]
    success: bool = True

    @classmethod
    def of(cls, run_id: str, scope: Scope, done: Sequence[Repointed]) -> "RepointedAnswer":
        shown = scope == DEFAULT_SCOPE
        return cls(
            run_id=run_id,
            changed=any(each.jobs for each in done),
            targets=[
                RepointedTarget(
                    submission_target=each.submission_target,
                    from_url=each.from_url if shown else None,
                    to_url=each.to_url if shown else None,
                    jobs=each.jobs,
                    kept=each.kept,
                    busy_jobs=each.busy_jobs,
                )
                for each in done
            ],
        )
