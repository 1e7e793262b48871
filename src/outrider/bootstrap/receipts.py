"""The way back: what providers report of messages, and what follows from it."""

from functools import cached_property

from outrider.bootstrap.control import ControlRoles
from outrider.domain.errors import InvalidInput
from outrider.domain.opt_out_words import OptOutWord, reading
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.gateways.receipt_readers import TargetReaders
from outrider.kernel.control.rate_pauser import RatePauser
from outrider.kernel.receipts.opt_out_answerer import OptOutAnswerer
from outrider.kernel.receipts.receipt_intake import ReceiptIntake
from outrider.kernel.receipts.receipt_matcher import ReceiptMatcher
from outrider.kernel.receipts.sent_tallier import SentTallier
from outrider.kernel.receipts.target_sharers import TargetSharers
from outrider.limits.receipts import DEFAULT_RECEIPT_LIMITS, ReceiptLimits
from outrider.ports.receipts import ReceiptReaders
from outrider.settings.targets import TargetSettings


class ReceiptRoles(ControlRoles):
    @cached_property
    def receipt_limits(self) -> ReceiptLimits:
        return DEFAULT_RECEIPT_LIMITS

    @cached_property
    def receipt_readers(self) -> ReceiptReaders:
        return TargetReaders(self.gateways, self.gateway_type_of)

    def gateway_type_of(self, submission_target: str) -> str | None:
        """None for a target that no longer exists, and if there is no registry."""
        try:
            contract = self.registry_keeper.contracts().get(submission_target)
        except InvalidInput:
            return None
        return None if contract is None else contract.gateway_type

    def channel_of(self, submission_target: str) -> Channel | None:
        gateway_type = self.gateway_type_of(submission_target)
        return None if gateway_type is None else GATEWAY_TYPES[gateway_type].channel

    @cached_property
    def receipt_intake(self) -> ReceiptIntake:
        return ReceiptIntake(
            self.foundation, self.channel_of, reading, self.target_sharers,
            self.receipt_matcher.wake, self.receipt_limits,
        )  # fmt: skip

    @cached_property
    def receipt_matcher(self) -> ReceiptMatcher:
        return ReceiptMatcher(
            self.foundation, self.channel_of, self.target_sharers, self.receipt_limits,
            self.rate_pauser.note, self.opt_out_answerer.answer, self.wake_lanes,
        )  # fmt: skip

    @cached_property
    def opt_out_answerer(self) -> OptOutAnswerer:
        return OptOutAnswerer(self.registry_keeper.contracts, GATEWAY_TYPES, self._answer_text)

    def _answer_text(
        self, submission_target: str, gateway: GatewayType, word: OptOutWord, written: str
    ) -> str | None:
        target = self.settings.targets.get(submission_target, TargetSettings())
        return target.answers.text(word, written, family_answers=gateway.answers_opt_outs)

    @cached_property
    def target_sharers(self) -> TargetSharers:
        shared = {name for name, target in self.settings.targets.items() if target.shared_with}
        return TargetSharers(
            self.foundation, shared, self.gateways.shares_reports, self.receipt_limits
        )

    @cached_property
    def rate_pauser(self) -> RatePauser:
        return RatePauser(self.foundation, self.phase_controller)

    @cached_property
    def sent_tallier(self) -> SentTallier:
        return SentTallier(self.foundation, self.receipt_limits)
