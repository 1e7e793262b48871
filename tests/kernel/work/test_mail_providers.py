"""Mailbox providers by MX records, asked of a real name server."""

from outrider.phases.mail_providers import MxProviders, organisation
from outrider.testing.clock import FakeClock
from tests.support.dns_server import Trouble, Zone, name_server
from tests.support.whole_runs import START

ZONE: Zone = {
    "one.test": {"MX": ["20 backup.elsewhere.test.", "10 in.mailhost.test."]},
    "two.test": {"MX": ["5 mx2.in.mailhost.test."]},
    "own.test": {"A": ["192.0.2.1"]},
    "none.test": {"MX": ["0 ."]},
    "silent.test": Trouble.SILENCE,
    "broken.test": Trouble.SERVFAIL,
}


async def test_domains_with_mail_servers_of_one_organisation_have_one_provider() -> None:
    async with name_server(ZONE) as server:
        providers = MxProviders([server.address])
        found = await providers.of(["one.test", "two.test", "own.test", "gone.test", "none.test"])
        assert found == {
            "one.test": "mailhost.test",
            "two.test": "mailhost.test",
            "own.test": "own.test",
            "gone.test": "gone.test",
            "none.test": "none.test",
        }


async def test_what_is_known_is_not_asked_again_for_an_hour() -> None:
    clock = FakeClock(START)
    async with name_server(ZONE) as server:
        providers = MxProviders([server.address], now=clock.monotonic)
        for _ in range(3):
            assert await providers.of(["one.test"]) == {"one.test": "mailhost.test"}
        assert len(server.asked) == 1
        clock.advance(3_601)
        await providers.of(["one.test"])
        assert len(server.asked) == 2


async def test_dns_that_does_not_answer_is_not_waited_for_again_at_once() -> None:
    async with name_server(ZONE) as server:
        providers = MxProviders([server.address], wait_seconds=0.1)
        asked = ["one.test", "silent.test", "broken.test"]
        found = {
            "one.test": "mailhost.test",
            "silent.test": "silent.test",
            "broken.test": "broken.test",
        }
        assert await providers.of(asked) == found
        before = len(server.asked)
        assert await providers.of(asked) == found
        assert len(server.asked) == before


def test_the_organisation_of_a_mail_server() -> None:
    assert organisation("gmail-smtp-in.l.google.com.") == "google.com"
    assert organisation("firm-com.mail.protection.outlook.com") == "outlook.com"
    assert organisation("mx.firm.co.uk.") == "firm.co.uk"
    assert organisation("mx.firm.de") == "firm.de"
    assert organisation(".") == ""
