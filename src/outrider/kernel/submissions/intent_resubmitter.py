"""The intent resubmitter: sends after all what its contract has ended, as a new, linked intent.

An exhausted or rejected intent is final and is never called again. What was sent, or may have been,
is not resubmitted.
"""

import re

import msgspec

from outrider.domain.errors import Conflict
from outrider.domain.ids import Scope
from outrider.domain.purposes import Purpose
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.kernel.foundation import Foundation
from outrider.kernel.submissions.submission_manager import Submission, SubmissionManager
from outrider.kernel.transactions import resubmissions
from outrider.kernel.transactions.resubmissions import ResubmissionLinks
from outrider.kernel.transactions.submissions import Intent

ENDED = frozenset({IntentStatus.EXHAUSTED, IntentStatus.REJECTED})
UNSENT = frozenset({ItemStatus.FAILED, ItemStatus.SKIPPED})
_NUMBERED = re.compile(r"(.*)~([1-9][0-9]{0,5})", re.DOTALL)


class IntentResubmitter:
    def __init__(self, foundation: Foundation, submissions: SubmissionManager) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._submissions = submissions

    async def links(self, intent: Intent) -> ResubmissionLinks:
        return await self._store.read(resubmissions.links_of(intent.outbox_id))

    async def resubmit(self, scope: Scope, intent_id: str, actor: str) -> tuple[Intent, bool]:
        """The new intent, and whether it is new: an intent is resubmitted once."""
        original, _ = await self._submissions.intent(scope, intent_id)
        _require_unsent(original)
        known = await self.links(original)
        if known.resubmitted_as is not None:
            return (await self._submissions.intent(scope, known.resubmitted_as))[0], False
        given = Submission(
            next_id(intent_id), original.submission_target, msgspec.json.decode(original.payload),
            original.payload, Purpose(original.topic, bool(original.transactional)),
            original.callback_url, original.time_zone,
        )  # fmt: skip
        intent, contracts = await self._submissions.drafted(given)
        script = resubmissions.resubmit(
            scope, original, intent, contracts, actor, self._ids, self._clock.now()
        )
        new = await self._store.write(script)
        self._submissions.wake()
        return new, True


def _require_unsent(intent: Intent) -> None:
    if intent.doubted_at is not None:
        raise Conflict(
            f"the intent '{intent.intent_id}' is in doubt: it may have been sent",
            hint="`outrider doubts resolve` settles it first",
        )
    if intent.status not in ENDED or intent.item_status not in UNSENT:
        what = "was sent" if intent.status in ENDED else f"is {intent.status}"
        raise Conflict(
            f"the intent '{intent.intent_id}' {what}",
            hint="only an exhausted or rejected intent that was not sent can be resubmitted",
        )


def next_id(intent_id: str) -> str:
    """`order-1` is resubmitted as `order-1~2`, and that as `order-1~3`."""
    found = _NUMBERED.fullmatch(intent_id)
    return f"{intent_id}~2" if found is None else f"{found[1]}~{int(found[2]) + 1}"
