"""The phase `http_validation`: the links of a campaign's messages are asked before anybody clicks.

Links that need a recipient to be whole are counted as skipped: nobody can ask them yet.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outrider.domain.errors import InvalidInput
from outrider.domain.texts import storable
from outrider.phases.links import links_of
from outrider.ports.phases import Desk, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.settings import (
    ERROR_DETAIL_MAX_CHARACTERS,
    LINK_CONCURRENCY,
    LINK_SECONDS,
    LINKS_MAX,
    LINKS_PER_JOB,
)

if TYPE_CHECKING:
    from outrider.phases.link_checker import Finding


class HttpValidation:
    name = "http_validation"

    def __init__(self, *, allow_private: bool, seconds: float = LINK_SECONDS) -> None:
        self._allow_private = allow_private
        self._seconds = seconds

    async def plan(self, desk: Desk) -> Sequence[PhaseJobPlan]:
        links = links_of(desk.definition.messages)
        found = [
            *(("ask", link) for link in links.known),
            *(("skip", link) for link in links.templated),
        ]
        if len(found) > LINKS_MAX:
            raise InvalidInput(
                f"the messages have {len(found):,} links, more than the {LINKS_MAX:,} allowed"
            )
        return [_job(found[at : at + LINKS_PER_JOB]) for at in range(0, len(found), LINKS_PER_JOB)]

    async def process(self, desk: Desk, job: PhaseJob) -> PhaseResult:  # noqa: ARG002 - the port has it
        task: Mapping[str, Any] = job.detail
        links: list[str] = task["ask"]
        findings = await self._ask(links)
        failed = [
            {"link": _shown(link), **_as_document(finding)}
            for link, finding in zip(links, findings, strict=True)
            if not finding.answers
        ]
        skipped = [
            {"link": _shown(link), "reason": "depends on the recipient"} for link in task["skip"]
        ]
        detail = {"failed": failed, "skipped": skipped}
        return PhaseResult(
            len(links) - len(failed),
            len(failed),
            len(skipped),
            {name: found for name, found in detail.items() if found},
        )

    async def _ask(self, links: Sequence[str]) -> "list[Finding]":
        # Here, because the phase is listed far more often than it is run, and HTTP takes 0.2 s.
        from outrider.phases.link_checker import check, open_session

        turns = asyncio.Semaphore(LINK_CONCURRENCY)

        async def in_turn(link: str) -> "Finding":
            async with turns:
                return await check(session, link, seconds=self._seconds)

        async with open_session(allow_private=self._allow_private) as session:
            return await asyncio.gather(*map(in_turn, links))


def _job(found: Sequence[tuple[str, str]]) -> PhaseJobPlan:
    detail = {
        task: [link for of_task, link in found if of_task == task] for task in ("ask", "skip")
    }
    return PhaseJobPlan(len(found), detail)


def _shown(link: str) -> str | None:
    from outrider.phases.link_checker import without_credentials

    return storable(without_credentials(link)[:ERROR_DETAIL_MAX_CHARACTERS])


def _as_document(finding: "Finding") -> dict[str, object]:
    if finding.status is not None:
        return {"status": finding.status}
    return {"reason": finding.reason}
