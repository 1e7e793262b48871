"""Answers to people who wrote STOP or HELP: single messages. Each is written in the transaction of
the opt-out that it confirms, so that it is sent once, whatever is repeated, reordered or killed.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import Scope
from outrider.domain.opt_out_words import OptOutWord
from outrider.kernel.transactions import submissions
from outrider.kernel.transactions.deployment import ContractSnapshot
from outrider.kernel.transactions.receipts import WaitingReceipt
from outrider.kernel.transactions.submissions import NewIntent
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, Window, ask


class Addressed(NamedTuple):
    """A receipt with whom it is about: its item's recipient, or the sender of a reply."""

    receipt: WaitingReceipt
    channel: str
    address: str


class OptOutAnswer(NamedTuple):
    intent: NewIntent
    contracts: Mapping[str, ContractSnapshot]


AnswerOf = Callable[[Addressed, OptOutWord], OptOutAnswer | None]
"""How a reply is answered; None: not by us."""


def submit(
    answers: Sequence[tuple[Addressed, OptOutAnswer]], ids: IdSource, now: datetime
) -> Transaction[int]:
    """Put them into their lanes; how many are new. The suppressions that they would meet do not
    hold them back."""
    by_scope: dict[Scope, dict[str, tuple[Addressed, OptOutAnswer]]] = {}
    for asked, answer in answers:
        by_scope.setdefault(asked.receipt.scope, {})[answer.intent.intent_id] = asked, answer
    count = 0
    for scope, wanted in sorted(by_scope.items()):
        contracts = {
            target: each
            for _, answer in wanted.values()
            for target, each in answer.contracts.items()
        }
        intents = [answer.intent for _, answer in wanted.values()]
        new, _ = yield from submissions.submit(scope, intents, contracts, ids, now)
        if not new:
            continue
        window: Window = {
            "id": [intent.outbox_id for intent in new.values()],
            "receipt_id": [wanted[intent.intent_id][0].receipt.id for intent in new.values()],
        }
        yield from ask("mark_answers", window)
        count += len(new)
    return count
