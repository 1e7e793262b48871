"""The person reader: what it finds through keys, retries and limits."""

from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.address_pages import fingerprint
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, Scope, WorkspaceId
from outrider.domain.people import Address, PersonKind, readings
from outrider.domain.phases import Action
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.kernel.transactions import people as people_transactions
from outrider.kernel.transactions import person_stories
from outrider.kernel.transactions.person_stories import Story
from outrider.kernel.transactions.phase_controls import Control, RerunScope
from outrider.limits.campaigns import IMPORT_WINDOW_ITEMS
from outrider.testing.launches import ACTOR, launch, message, observe, people, target
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, work_until_terminal
from tests.support.workflows import email, office

SMS = target("sms", "noop", "noop:")


def test_a_text_is_read_as_everything_that_it_can_be() -> None:
    def read(given: str) -> list[tuple[str, str]]:
        return [(each.kind.value, each.text) for each in readings(given)]

    assert read(" Ada@EXAMPLE.test ") == [
        ("email", "Ada@example.test"), ("recipient", "Ada@EXAMPLE.test"),
    ]  # fmt: skip
    assert read("+44 7700 900-123") == [
        ("phone", "+447700900123"), ("recipient", "+44 7700 900-123"),
    ]  # fmt: skip
    assert read("lead-1") == [("push_token", "lead-1"), ("recipient", "lead-1")]
    # An address that nobody can send to was skipped, and that is a part of the story.
    assert read("ada@")[0] == ("email", "ada@")
    assert Address(PersonKind.RECIPIENT, "lead-1").channels == []


async def story(outrider: Outrider, given: str, most: int = 100) -> Story:
    return await outrider.person_reader.story(DEFAULT_SCOPE, given, most)


async def test_items_of_every_run_of_a_campaign_are_found_without_an_index_by_address(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, SMS) as outrider:
        messages = [message(Channel.SMS, "sms", message_id=name) for name in ("offer", "reminder")]
        run_id = await launch(outrider, messages, people(3))
        await work_until_terminal(outrider, run_id)
        run, _ = await observe(outrider, run_id)
        again = Control(Action.RERUN, ACTOR, scope=RerunScope.ALL, confirm=True)
        begun = await outrider.phase_controller.control(
            DEFAULT_SCOPE, run.campaign_id, LAUNCH, again
        )
        assert begun.run_id is not None
        await work_until_terminal(outrider, begun.run_id)
        by_phone = await story(outrider, people(3)[1].phone or "")
        found = [trace.item for trace in by_phone.traces if trace.item]
        assert [(each.channel, each.recipient_id) for each in found] == [("sms", "lead-1")] * 4
        assert len({each.run_id for each in found}) == 2
        by_id = await story(outrider, "lead-1", most=3)
        assert (by_id.kind, by_id.total, by_id.has_more) == (PersonKind.RECIPIENT, 4, True)
        assert {each.text for each in by_id.addresses} == {
            people(2)[1].email, people(2)[1].phone, people(2)[1].push_token,
        }  # fmt: skip


async def test_a_story_says_where_it_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(f"sqlite:///{tmp_path}/outrider.db", tmp_path, SMS) as outrider:
        for _ in range(3):
            run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(1))
            await work_until_terminal(outrider, run_id)
        phone = people(1)[0].phone or ""
        whole = await story(outrider, phone)
        assert (whole.total, whole.complete) == (3, True)
        monkeypatch.setattr(person_stories, "PERSON_CAMPAIGNS_MAX", 2)
        monkeypatch.setattr(people_transactions.memberships, "__defaults__", (2,))
        limited = await story(outrider, phone)
        assert (limited.total, limited.complete) == (2, False)


async def test_an_event_without_a_message_is_in_the_story_of_whomever_it_names(
    database: str, tmp_path: Path
) -> None:
    async with office(database, tmp_path) as desk:
        await desk.rule("quote_sent", Channel.EMAIL, email())
        await desk.rule("lead_welcome", Channel.EMAIL, email(), enabled=False)
        await desk.routed("quote_sent", event_id="sent")
        await desk.routed("lead_welcome", event_id="silent")

        async def events_of(given: str) -> list[str]:
            found = await story(desk.outrider, given)
            return [trace.event.event_id for trace in found.traces if trace.event]

        # The lead got a message by mail, which tells of its event, and none by phone.
        assert await events_of("ADA@example.test") == ["silent", "sent"]
        assert await events_of("lead-1") == ["silent", "sent"]
        assert await events_of("+44 7700 900-123") == ["silent", "sent"]
        assert await events_of("bo@partner.test") == ["silent", "sent"]
        assert await events_of("agent-1") == ["silent", "sent"]
        assert await events_of("nobody@example.test") == []
        by_mail = await story(desk.outrider, "ada@example.test")
        assert (by_mail.kind, by_mail.complete) == (PersonKind.EMAIL, True)
        readings_of = readings("cy@agency.test")
        assert await desk.outrider.store.read(person_stories.known(DEFAULT_SCOPE, readings_of))
    async with raw_sql(database) as raw:
        named = await raw.run("SELECT kind, address FROM event_people ORDER BY kind, address")
    # A message tells of its event by itself: only the disabled rule's names the lead's address.
    assert [row[1] for row in named].count("ada@example.test") == 1
    assert [row[1] for row in named].count("agent-1") == 2


async def test_a_person_is_found_in_large_and_small_audiences_and_in_nobody_elses(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, SMS) as outrider:
        ids = []
        for count in (2, IMPORT_WINDOW_ITEMS + 100):
            definition = CampaignDefinition("Many", (LAUNCH,), (message(Channel.SMS, "sms"),), 500)
            created, _ = await outrider.deployer.create(
                DEFAULT_SCOPE, definition, people(count), ACTOR
            )
            ids.append(created)
        last = people(IMPORT_WINDOW_ITEMS + 100)[-1]
        for each, found_in in ((people(1)[0], ids[::-1]), (last, ids[1:])):
            for address in _addresses(each):
                found = await outrider.store.read(
                    people_transactions.memberships(DEFAULT_SCOPE, address)
                )
                assert [(one.campaign_id, one.recipient_id) for one in found] == [
                    (campaign_id, each.id) for campaign_id in found_in
                ]
        elsewhere = Scope(DEFAULT_SCOPE.tenant_id, WorkspaceId(outrider.ids.new()))
        for address in _addresses(last):
            assert (
                await outrider.store.read(people_transactions.memberships(elsewhere, address)) == []
            )


async def test_an_equal_fingerprint_alone_makes_nobody_a_member(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people_transactions, "fingerprint", lambda _: fingerprint("ada@x.test"))
    async with opened(database, tmp_path, SMS) as outrider:
        definition = CampaignDefinition("One", (LAUNCH,), (message(Channel.SMS, "sms"),), 500)
        ada = recipient("ada", email="ada@x.test")
        await outrider.deployer.create(DEFAULT_SCOPE, definition, [ada], ACTOR)
        for text, expected in (("ada@x.test", ["ada"]), ("bob@x.test", [])):
            found = await outrider.store.read(
                people_transactions.memberships(DEFAULT_SCOPE, Address(PersonKind.EMAIL, text))
            )
            assert [each.recipient_id for each in found] == expected


async def test_a_story_is_not_complete_if_campaigns_are_too_old_to_be_looked_through(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(database, tmp_path, SMS) as outrider:
        definition = CampaignDefinition("One", (LAUNCH,), (message(Channel.SMS, "sms"),), 500)
        for _ in range(2):
            await outrider.deployer.create(DEFAULT_SCOPE, definition, people(1), ACTOR)
        phone = people(1)[0].phone or ""
        assert (await story(outrider, phone)).complete
        monkeypatch.setattr(people_transactions, "PERSON_CAMPAIGNS_LOOKED_THROUGH", 1)
        assert not (await story(outrider, phone)).complete


def _addresses(of: Recipient) -> list[Address]:
    return [
        Address(PersonKind.EMAIL, of.email or ""),
        Address(PersonKind.PHONE, of.phone or ""),
        Address(PersonKind.PUSH_TOKEN, of.push_token or ""),
    ]
