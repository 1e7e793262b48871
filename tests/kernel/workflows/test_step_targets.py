"""Step targets: a step's own, the channel's by the settings, or the only one there is."""

from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.kernel.workflows.step_targets import StepTargets
from tests.support.workflow_scene import CONTRACTS

TYPES = {
    "smtp": GatewayType("smtp", Channel.EMAIL, frozenset()),
    "sms": GatewayType("sms", Channel.SMS, frozenset()),
}


def test_the_only_target_of_a_channel_is_found_without_a_name() -> None:
    targets = StepTargets(lambda: CONTRACTS, TYPES, {})
    assert targets.find(Channel.EMAIL, None) is CONTRACTS["mail"]
    assert targets.find(Channel.SMS, "sms") is CONTRACTS["sms"]


def test_a_bad_fit_is_described_in_words() -> None:
    targets = StepTargets(lambda: CONTRACTS, TYPES, {})
    unknown = targets.find(Channel.EMAIL, "other")
    assert unknown == "the registry has no submission target 'other'"
    assert targets.find(Channel.EMAIL, "sms") == "the submission target 'sms' is not for email"
    none = targets.find(Channel.PUSH, None)
    assert isinstance(none, str)
    assert none.startswith("the registry has no submission target for push")


def test_of_several_the_settings_choose() -> None:
    several = {**CONTRACTS, "second": CONTRACTS["mail"]}
    unsure = StepTargets(lambda: several, TYPES, {}).find(Channel.EMAIL, None)
    assert isinstance(unsure, str)
    assert "more than one" in unsure
    chosen = StepTargets(lambda: several, TYPES, {Channel.EMAIL: "second"})
    assert chosen.find(Channel.EMAIL, None) is CONTRACTS["mail"]
