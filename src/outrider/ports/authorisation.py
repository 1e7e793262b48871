"""The authorisation port: who may send which signal to a run."""

from typing import Protocol

from outrider.domain.ids import RunId
from outrider.domain.keys import Principal
from outrider.domain.signals import AuthorisationDecision, Signal


class Authorisation(Protocol):
    async def decide(
        self, principal: Principal, signal: Signal, run_id: RunId
    ) -> AuthorisationDecision:
        """A denial says why; it is recorded in the run's log, as is a permission."""
        ...
