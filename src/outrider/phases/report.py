"""The phase `report`: a launch becomes three files, for a spreadsheet, a machine and a person.

Lines stream from the ledger into the file page by page and are counted on the way.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from outrider.domain.errors import Conflict
from outrider.phases import results_csv
from outrider.phases.report_figures import Figures, LineTally, read_launch
from outrider.phases.report_page import report_page
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult

RESULTS, CERTIFICATE, PAGE = "results.csv", "certificate.json", "report.html"


class ReportPhase:
    name = "report"

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:  # noqa: ARG002 - the port's
        """The job checks whether there was a launch: proving one takes a while."""
        return [PhaseJobPlan(1)]

    async def process(self, context: PhaseContext, job: PhaseJob) -> PhaseResult:
        summary = await _summary(context)
        tally = LineTally()
        await context.keep(RESULTS, results_csv.MEDIA_TYPE, _results(context, tally))
        proof = msgspec.json.format(msgspec.json.encode(summary["certificate"]), indent=2)
        await context.keep(CERTIFICATE, "application/json", _whole(proof + b"\n"))
        launch = read_launch(summary)
        page = report_page(Figures(context.definition.name, launch, tally))
        await context.keep(PAGE, "text/html; charset=utf-8", _whole(page.encode()))
        detail = {"lines": tally.lines, "certificateHolds": launch.certificate.holds}
        return PhaseResult(succeeded=job.items, detail=detail)


async def _summary(context: PhaseContext) -> Mapping[str, object]:
    summary = await context.launch_summary()
    if summary is None:
        raise Conflict(
            "there is nothing to report on: the campaign has not been launched",
            hint="launch it first, then start the report phase",
        )
    return summary


async def _results(context: PhaseContext, tally: LineTally) -> AsyncIterator[bytes]:
    yield results_csv.header()
    async for lines in context.launch_lines():
        tally.count(lines)
        yield results_csv.page(lines)


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content
