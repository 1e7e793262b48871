"""Domain names: whose limits apply to a recipient."""

from collections.abc import Collection, Mapping

from outrider.domain.domain_limits import DomainLimits, DomainShaping
from outrider.kernel.delivery.domain_names import NO_DOMAIN, bucket_names


class OneProvider:
    """The provider of both these domains is known; the others stand for themselves."""

    async def of(self, domains: Collection[str]) -> Mapping[str, str]:
        shared = {"one.test": "mailhost.test", "two.test": "mailhost.test"}
        return {each: shared.get(each, each) for each in domains}


async def test_domains_of_one_provider_have_one_name_unless_they_have_limits() -> None:
    shaping = DomainShaping(named={"two.test": DomainLimits(connections=3)})
    addresses = {"a@one.test", "b@two.test", "c@other.test", None}
    assert await bucket_names(OneProvider(), shaping, addresses) == {
        "a@one.test": "mailhost.test",
        "b@two.test": "two.test",
        "c@other.test": "other.test",
        None: NO_DOMAIN,
    }
