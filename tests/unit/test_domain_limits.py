"""Which answers are about a recipient's domain, and what the limits of each domain are."""

import pytest

from outrider.bootstrap.contracts import target_policy
from outrider.domain.call_results import Accepted, CallResult, Closes, Throttled
from outrider.domain.domain_limits import DomainLimits, about_the_domain, domain_of
from outrider.settings import TargetSettings

NAMES = {"mailhost.test", "one.test"}


def deferred(detail: str, closes: Closes = Closes.THE_ITEM) -> Throttled:
    return Throttled(detail, closes=closes)


@pytest.mark.parametrize(
    "result",
    [
        deferred("451 4.7.1 Try again later"),
        deferred("421 4.7.0 one.test: too many messages", Closes.THE_DOOR),
        deferred("421 delivery to in.mailhost.test suspended", Closes.THE_DOOR),
    ],
)
def test_a_deferral_of_the_recipient_or_in_its_domains_name_is_about_the_domain(
    result: CallResult,
) -> None:
    found = about_the_domain(result, NAMES)
    assert found is not None
    assert found.closes is Closes.THE_ITEM, "the target's own door stays open"


@pytest.mark.parametrize(
    "result",
    [
        Accepted(),
        deferred("452 4.2.2 Mailbox full"),
        deferred("450 4.7.1 Greylisted, come back in five minutes"),
        deferred("421 4.7.0 Too many connections", Closes.THE_DOOR),
        deferred("421 not-one.test is busy", Closes.THE_DOOR),
    ],
)
def test_what_is_about_one_mailbox_or_about_us_is_not(result: CallResult) -> None:
    assert about_the_domain(result, NAMES) is None


def test_the_domain_of_an_address() -> None:
    assert domain_of("Ada@One.Test.") == "one.test"
    assert domain_of('"a@b"@one.test') == "one.test"
    assert [domain_of(each) for each in (None, "", "+4477", "ada@")] == [None] * 4


def test_without_settings_a_target_does_not_tell_domains_apart() -> None:
    assert target_policy(TargetSettings()).domains is None


def test_a_domain_without_its_own_limits_has_the_usual_ones() -> None:
    settings = TargetSettings.model_validate(
        {"domain_connections": 5, "domains": {"Mailhost.test": {"rate_per_second": 10}}}
    )
    shaping = target_policy(settings).domains
    assert shaping is not None
    assert shaping.limits("mailhost.test") == DomainLimits(rate_per_second=10)
    assert shaping.limits("one.test") == DomainLimits(connections=5)
