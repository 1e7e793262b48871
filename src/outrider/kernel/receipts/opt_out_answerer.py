"""The opt-out answerer: composes the message that answers a reply of STOP or HELP.

An answer is an intent like any other. Its id is derived from what it answers: the receipt of a STOP
that changed something, or the day of a HELP, so that an automatic sender is not answered endlessly.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from outrider.domain.errors import InvalidInput
from outrider.domain.ids import intent_key
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.purposes import Purpose
from outrider.domain.receipts import ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.submission import Contract, GatewayType
from outrider.kernel.contracts.contract_cache import snapshots
from outrider.kernel.transactions.receipt_answers import Addressed, OptOutAnswer
from outrider.kernel.transactions.receipts import WaitingReceipt
from outrider.kernel.transactions.submissions import NewIntent, lane_in
from outrider.limits.campaigns import LANES_PER_TARGET

TextOf = Callable[[str, GatewayType, OptOutWord, str], str | None]
"""The answer that a target gives to a word and how it was written; None if it gives none."""

ANSWERED_ON: Final = frozenset({Channel.SMS, Channel.WHATSAPP})
"""Where people opt out by replying, and expect a reply."""


class OptOutAnswerer:
    def __init__(
        self,
        contracts: Callable[[], Mapping[str, Contract]],
        gateway_types: Mapping[str, GatewayType],
        text_of: TextOf,
    ) -> None:
        self._contracts = contracts
        self._gateway_types = gateway_types
        self._text_of = text_of

    def answer(self, asked: Addressed, word: OptOutWord) -> OptOutAnswer | None:
        receipt = asked.receipt
        # A provider that reports an opt-out has answered it; a person who replied has not been
        # answered yet.
        if receipt.event is not ReceiptEvent.REPLIED or receipt.text is None:
            return None
        try:
            contract = self._contracts().get(receipt.submission_target)
        except InvalidInput:
            return None
        gateway = None if contract is None else self._gateway_types.get(contract.gateway_type)
        if contract is None or gateway is None or gateway.channel not in ANSWERED_ON:
            return None
        text = self._text_of(receipt.submission_target, gateway, word, receipt.text)
        if text is None:
            return None
        intent_id = _intent_id(receipt, asked.address, word)
        key = intent_key(intent_id)
        payload = {"to": asked.address, gateway.body_field: text}
        intent = NewIntent(
            intent_id,
            receipt.submission_target,
            # Another number would be a stranger's.
            None,
            lane_in(contract.mode, int(key[:8], 16) % LANES_PER_TARGET),
            gateway.channel.value,
            gateway.name,
            msgspec.json.encode(payload).decode(),
            key,
            asked.address,
            Purpose(transactional=True),
        )
        in_force = {receipt.submission_target: contract}
        return OptOutAnswer(intent, snapshots(in_force, in_force, lambda _: None))


def _intent_id(receipt: WaitingReceipt, address: str, word: OptOutWord) -> str:
    if word is OptOutWord.STOP:
        return f"stop-answer-{receipt.id}"
    day = receipt.effective_at.date().isoformat()
    whom = hashlib.sha256(f"{receipt.submission_target}|{address}".encode()).hexdigest()[:32]
    return f"help-answer-{day}-{whom}"
