"""The phase `http_validation`: the links of a campaign's messages are requested before the launch.

Links that are incomplete without a recipient are counted as skipped: they cannot be checked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.domain.errors import InvalidInput
from outrider.domain.texts import storable
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS
from outrider.limits.phases import LINK_CONCURRENCY, LINK_SECONDS, LINKS_MAX, LINKS_PER_JOB
from outrider.phases.link_checker import LinkChecker, LinkFinding, without_credentials
from outrider.phases.links import links_of
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult


class HttpValidation:
    name = "http_validation"

    def __init__(self, *, allow_private: bool, seconds: float = LINK_SECONDS) -> None:
        self._allow_private = allow_private
        self._seconds = seconds

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:
        links = links_of(context.definition.texts)
        found = [
            *(("ask", link) for link in links.known),
            *(("skip", link) for link in links.templated),
        ]
        if len(found) > LINKS_MAX:
            raise InvalidInput(
                f"the messages have {len(found):,} links, more than the {LINKS_MAX:,} allowed"
            )
        return [_job(found[at : at + LINKS_PER_JOB]) for at in range(0, len(found), LINKS_PER_JOB)]

    async def process(self, context: PhaseContext, job: PhaseJob) -> PhaseResult:  # noqa: ARG002 - the port has it
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

    async def _ask(self, links: Sequence[str]) -> list[LinkFinding]:
        turns = asyncio.Semaphore(LINK_CONCURRENCY)
        checker = LinkChecker(allow_private=self._allow_private, seconds=self._seconds)

        async def in_turn(link: str) -> LinkFinding:
            async with turns:
                return await checker.check(link)

        try:
            return await asyncio.gather(*map(in_turn, links))
        finally:
            await checker.close()


def _job(found: Sequence[tuple[str, str]]) -> PhaseJobPlan:
    detail = {
        task: [link for of_task, link in found if of_task == task] for task in ("ask", "skip")
    }
    return PhaseJobPlan(len(found), detail)


def _shown(link: str) -> str | None:
    return storable(without_credentials(link)[:ERROR_DETAIL_MAX_CHARACTERS])


def _as_document(finding: LinkFinding) -> dict[str, object]:
    if finding.status is not None:
        return {"status": finding.status}
    return {"reason": finding.reason}
