"""Signals to a run: each is decided once, and the decision is in the run's log."""

from uuid import uuid4

from outrider.api.context import Asker, Wired
from outrider.api.models.signals import SignalBody, SignalDone
from outrider.api.route import api_router, options
from outrider.domain.ids import RunId
from outrider.domain.keys import KeyScope
from outrider.domain.signals import AskedSignal

router = api_router("runs")


@router.post(
    "/runs/{run_id}/signals",
    operation_id="signalRun",
    summary="Approve, pause, resume, cancel or advance a run, choose a variant, or retry a job",
    description="Which scope a signal takes is decided by the signal: APPROVE needs `admin`, the"
    " others `operate`. A refusal is recorded in the run's log too.",
    # A read-only key is let in, so that its attempt is recorded.
    openapi_extra=options(scope=KeyScope.READ),
)
async def signal(run_id: str, outrider: Wired, asker: Asker, body: SignalBody) -> SignalDone:
    asked = AskedSignal(
        body.signal, body.signal_id or str(uuid4()), body.step_id, body.message_id, body.variant
    )
    return SignalDone.of(await outrider.run_signaller.signal(asker, RunId(run_id), asked))
