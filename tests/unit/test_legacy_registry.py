"""Which legacy senders there are; a distribution that brings a wrong one stops the start."""

import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.distributions import Install, installing

from outrider.domain.errors import InvalidInput
from outrider.domain.states import Channel
from outrider.domain.workflows import DomainEvent, DomainEventId, RoutePlace
from outrider.legacy.registry import GROUP, load_senders
from outrider.ports.legacy import Composition

PAGE = Path(__file__).parents[2] / "docs/reference/workflows.md"

SENDER = """
from outrider.domain.states import Channel
from outrider.domain.workflows import RecipientConfig, RoutePlace
from outrider.ports.legacy import Composition

class Sender:
    name = "{name}"
    trigger = "visit_booked"
    place = RoutePlace(Channel.SMS, "lead")
    def compose(self, event):
        return Composition(None, "See you", RecipientConfig(include_lead_contact=True))
"""
AT_THE_PROPOSAL = SENDER.replace('"visit_booked"', '"quote_sent"').replace(
    "Channel.SMS", "Channel.EMAIL"
)
REPLACING = AT_THE_PROPOSAL.replace(
    "class Sender:", 'class Sender:\n    replaces = "proposal_email"'
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution for this test: a module, and metadata that names its senders."""
    with installing(GROUP, tmp_path, monkeypatch) as install:
        yield install


def names() -> dict[str, tuple[str, RoutePlace]]:
    return {sender.name: stand for stand, sender in load_senders().items()}


def test_the_built_in_senders_are_always_there() -> None:
    assert names() == {
        "proposal_email": ("quote_sent", RoutePlace(Channel.EMAIL, "lead")),
        "thank_you_email": ("quote_accepted", RoutePlace(Channel.EMAIL, "lead")),
        "agent_email": ("quote_accepted", RoutePlace(Channel.EMAIL, "agent")),
    }


def test_a_registered_sender_is_loaded(installed: Install) -> None:
    installed({"visit_sms": "plugin:Sender"}, SENDER.format(name="visit_sms"))
    assert names()["visit_sms"] == ("visit_booked", RoutePlace(Channel.SMS, "lead"))
    assert len(names()) == 4


@pytest.mark.parametrize("name", ["house_proposal", "proposal_email"])
def test_a_built_in_sender_is_replaced_by_one_that_says_so(installed: Install, name: str) -> None:
    installed({name: "plugin:Sender"}, REPLACING.format(name=name))
    senders = load_senders()
    assert len(senders) == 3
    assert type(senders["quote_sent", RoutePlace(Channel.EMAIL, "lead")]).__module__ == "plugin"


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("Visit", SENDER, "should have a name that matches"),
        ("v" * 65, SENDER, "should have a name that matches"),
        ("email_send", SENDER, "should have another name"),
        ("agent_email", SENDER, "has a name already used by Outrider itself"),
        ("visit", "Other = 5", "cannot be loaded: AttributeError"),
        ("visit", "import nowhere_at_all", "cannot be loaded: ModuleNotFoundError"),
        ("visit", "def Sender(): 1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("visit", "Sender = dict", "cannot be loaded: AttributeError"),
        ("visit", SENDER.replace("def comp", "async def comp"), "the plain function compose"),
        ("visit", SENDER.replace("{name}", "other"), "gives a sender that calls itself 'other'"),
        ("visit", SENDER.replace('"visit_booked"', "5"), "should have a trigger that matches"),
        ("visit", SENDER.replace('"visit_booked"', '"Visit!"'), "should have a trigger that"),
        ("visit", SENDER.replace('RoutePlace(Channel.SMS, "lead")', '("sms", "lead")'),
         "should have a place such as RoutePlace"),
        ("visit", SENDER.replace("Channel.SMS", '"sms"'), "should have a place such as"),
        ("visit", SENDER.replace('"lead"', '"the lead"'), "should have a place such as"),
        ("visit", AT_THE_PROPOSAL,
         "is for a place already used (quote_sent, email to lead) by proposal_email of Outrider"),
        ("visit", REPLACING.replace("proposal_email", "agent_email"),
         "replaces 'agent_email', which is not built in at its place"),
        ("visit", REPLACING.replace('"quote_sent"', '"visit_booked"'),
         "replaces 'proposal_email', which is not built in at its place"),
        ("proposal_email", AT_THE_PROPOSAL, "is for a place already used"),
    ],
)  # fmt: skip
def test_a_wrong_sender_stops_the_start_and_names_its_distribution(
    installed: Install, name: str, code: str, why: str
) -> None:
    installed({name: "plugin:Sender"}, code.replace("{name}", name))
    with pytest.raises(InvalidInput) as refused:
        load_senders()
    assert refused.value.message.startswith(f"the legacy sender '{name}' of acme-plugin 1.2 ")
    assert why in refused.value.message
    assert "plugin:Sender" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("code", "other", "why"),
    [
        (SENDER, SENDER, "is for a place already used"),
        (REPLACING, REPLACING, "replaces 'proposal_email', which is not built in"),
        (REPLACING, AT_THE_PROPOSAL, "is for a place already used"),
    ],
)
def test_two_distributions_cannot_have_one_place(
    installed: Install, code: str, other: str, why: str
) -> None:
    installed({"first": "one:Sender"}, code.format(name="first"), "one")
    installed({"second": "two:Sender"}, other.format(name="second"), "two")
    with pytest.raises(InvalidInput, match=re.escape(why)) as refused:
        load_senders()
    assert "'second' of acme-two 1.2" in refused.value.message


def test_two_distributions_cannot_have_one_name(installed: Install) -> None:
    elsewhere = SENDER.replace('"lead"', '"partner"')
    installed({"visit": "one:Sender"}, SENDER.format(name="visit"), "one")
    installed({"visit": "two:Sender"}, elsewhere.format(name="visit"), "two")
    with pytest.raises(InvalidInput, match=re.escape("already used by acme-one 1.2")):
        load_senders()


def test_the_sender_that_the_page_shows_works_unchanged(installed: Install) -> None:
    section = PAGE.read_text().partition("\n## Legacy senders\n")[2].partition("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    [lines] = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    installed(tomllib.loads(lines)["project"]["entry-points"][GROUP], code, "visits")
    sender = load_senders()["visit_booked", RoutePlace(Channel.SMS, "lead")]
    happened = datetime(2026, 11, 2, tzinfo=UTC)
    told, silent = (
        DomainEvent(DomainEventId("d"), "e-1", "visit_booked", happened, {}, variables)
        for variables in ({"visit": {"day": "Monday"}}, {})
    )
    composition = sender.compose(told)
    assert isinstance(composition, Composition)
    assert composition.recipients.include_lead_contact
    assert sender.compose(silent) == "the event does not say on which day the visit is"
    for name in names():
        assert f"`{name}`" in section
