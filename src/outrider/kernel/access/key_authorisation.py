"""Authorisation by key: operating a run takes `operate`, approving one takes `admin`.

A person who may start a campaign that requires approval must not be able to approve it as well.
"""

from outrider.domain.ids import RunId
from outrider.domain.keys import KeyScope, Principal
from outrider.domain.signals import Allowed, AuthorisationDecision, Denied, Signal

NEEDED = {
    Signal.APPROVE: KeyScope.ADMIN,
    Signal.PAUSE: KeyScope.OPERATE,
    Signal.RESUME: KeyScope.OPERATE,
    Signal.CANCEL: KeyScope.OPERATE,
    Signal.RETRY_STEP: KeyScope.OPERATE,
    Signal.ADVANCE: KeyScope.OPERATE,
    Signal.DECIDE: KeyScope.OPERATE,
}


class KeyAuthorisation:
    async def decide(
        self,
        principal: Principal,
        signal: Signal,
        run_id: RunId,  # noqa: ARG002 - others may decide by the run
    ) -> AuthorisationDecision:
        needed = NEEDED[signal]
        if principal.allows(needed):
            return Allowed()
        return Denied(f"the key's scopes do not include {needed.value}")
