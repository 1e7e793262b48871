"""Single messages, which clients submit themselves."""

from functools import cached_property

from outrider.bootstrap.engines import EngineRoles
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.submissions.intent_resubmitter import IntentResubmitter
from outrider.kernel.submissions.submission_manager import SubmissionManager


class SubmissionRoles(EngineRoles):
    @cached_property
    def submissions(self) -> SubmissionManager:
        return SubmissionManager(
            self.foundation, self.registry_keeper.contracts, GATEWAY_TYPES, self.fallback_of,
            self.wake_lanes, self.registry_follower.refresh, self.right_of_way,
            allow_private_callbacks=self.settings.allow_private_callbacks,
        )  # fmt: skip

    @cached_property
    def intent_resubmitter(self) -> IntentResubmitter:
        return IntentResubmitter(self.foundation, self.submissions)
