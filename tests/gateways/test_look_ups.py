"""What each family makes of a provider's records, against a witness that is not our simulator."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from outrider.domain.evidence import Finding, LookedUp
from outrider.domain.ids import IdempotencyKey
from outrider.gateways import look_ups
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.gateways.families import bluesky, twilio
from outrider.gateways.families.twilio import TwilioGateway
from outrider.ports.gateway import Gateway, LookUpQuestion
from outrider.settings import TargetSettings
from tests.support.look_up_witness import LookUpWitness, Record, Reply
from tests.support.provider_targets import PLANTED, TARGETS, PlantedSecrets

PHONE, MAIL, FROM = "+447700900123", "ada@example.test", "+15550001111"
SKEW = timedelta(seconds=60)
TEXT, SUBJECT = "Your table is booked", "Tonight"


@dataclass(frozen=True)
class Family:
    name: str
    to: str

    def __str__(self) -> str:
        return self.name


FAMILIES = [
    Family("twilio_sms", PHONE), Family("twilio_voice", PHONE), Family("resend", MAIL),
    Family("mastodon", ""), Family("sms", PHONE), Family("push", "token-1"), Family("smtp", MAIL),
    Family("postmark", MAIL), Family("mailjet", MAIL), Family("mailgun", MAIL),
    Family("sinch", PHONE), Family("infobip", PHONE), Family("plivo", PHONE), Family("slack", ""),
    Family("bluesky", ""),
]  # fmt: skip


def named(*names: str) -> list[Family]:
    return [next(each for each in FAMILIES if each.name == name) for name in names]


DECLARED = named("sms", "push", "smtp")
OF_MAIL = named("postmark", "mailjet", "mailgun")
BY_REFERENCE = [*OF_MAIL, *named("sinch", "infobip")]
ASKED_FOR_ONE = [*BY_REFERENCE, *named("bluesky")]
TWILIO = named("twilio_sms", "twilio_voice")
LISTING = [*TWILIO, *named("resend", "mastodon", "plivo")]
DATED = [*LISTING, *named("slack", "sinch")]
"""Whose lists are of a time."""
WITHOUT_TEXT = named("twilio_voice", "plivo")
"""Whose lists do not show what was said."""
TEXTUAL = [each for each in LISTING if each not in WITHOUT_TEXT]
families = pytest.mark.parametrize("family", FAMILIES, ids=str)
by_reference = pytest.mark.parametrize("family", BY_REFERENCE, ids=str)
listing = pytest.mark.parametrize("family", LISTING, ids=str)
textual = pytest.mark.parametrize("family", TEXTUAL, ids=str)


@asynccontextmanager
async def asked_of(
    witness: LookUpWitness, family: Family, **options: str
) -> AsyncIterator[Gateway]:
    known = TARGETS[family.name].model_dump()
    known["options"] = {**known["options"], **options}
    if family in DECLARED:
        known["look_up_url"] = f"{witness.url}/look-up"
    gateways = Gateways(PlantedSecrets(), targets={"t": TargetSettings(**known)})
    url = witness.url.replace("http", "smtp", 1) if family.name == "smtp" else witness.url
    yield gateways.gateway("t", family.name, url)
    await gateways.close()


def record(family: Family, **changes: object) -> Record:
    made = Record("m-1", family.to, TEXT, SUBJECT, reference="ref-1")
    if family.name in ("mastodon", "mailjet"):
        made = replace(made, id="111")
    if family.name == "bluesky":
        made = replace(made, id=bluesky.record_key("ref-1"))
    return replace(made, **changes)  # type: ignore[arg-type]


def shown_id(family: Family, shown: Record) -> str:
    """Infobip's is our reference, and Bluesky's the address of the post."""
    if family.name == "infobip":
        return shown.reference
    return (
        f"at://did:plc:1/{bluesky.COLLECTION}/{shown.id}" if family.name == "bluesky" else shown.id
    )


def question(family: Family, number: int = 1, text: str = TEXT) -> LookUpQuestion:
    now = datetime.now(UTC)
    after = now - timedelta(minutes=10)
    return LookUpQuestion(
        IdempotencyKey(f"ref-{number}"), after, now + SKEW, now, family.to, SUBJECT, text
    )


async def asked(gateway: Gateway, *questions: LookUpQuestion) -> LookedUp:
    said = await gateway.look_up(questions)
    return said[questions[0].reference]


@families
async def test_what_a_provider_has_is_found_and_nothing_else(family: Family) -> None:
    other = record(family, id="9", to="+447700900999", reference="ref-9", text="Something else")
    if family.name == "mastodon":
        other = replace(other, to="")
    async with (
        LookUpWitness(record(family), other) as witness,
        asked_of(witness, family) as gateway,
    ):
        found = await asked(gateway, question(family))
        assert found.finding is Finding.FOUND
        assert found.provider_message_ids == (shown_id(family, record(family)),)
        witness.records = [other]
        assert (await asked(gateway, question(family))).finding is Finding.ABSENT


@by_reference
async def test_one_recipients_messages_are_told_apart_by_our_reference(family: Family) -> None:
    """Whatever their texts are, and however many there are."""
    now = datetime.now(UTC)
    others = [
        record(family, id=f"{900 + n}", reference=f"ref-{n}", at=now - timedelta(seconds=n))
        for n in range(2, 9)
    ]
    async with LookUpWitness(*others) as witness, asked_of(witness, family) as gateway:
        assert (await asked(gateway, question(family))).finding is Finding.ABSENT
        ours = record(family, id="800", at=now - timedelta(minutes=5))
        witness.records.append(ours)
        found = await asked(gateway, question(family))
        assert found.provider_message_ids == (shown_id(family, ours),)


@pytest.mark.parametrize("family", ASKED_FOR_ONE, ids=str)
async def test_a_provider_that_ignores_the_question_proves_nothing(family: Family) -> None:
    other = record(family, id="9", to="eve@example.test", reference="ref-9")
    async with LookUpWitness(other) as witness, asked_of(witness, family) as gateway:
        witness.shows_everything = True
        said = await asked(gateway, question(family))
        assert (said.finding, said.is_silence) == (Finding.UNKNOWN, True)


@pytest.mark.parametrize("family", OF_MAIL, ids=str)
async def test_a_reference_that_the_provider_cannot_carry_is_not_absent(family: Family) -> None:
    """It was sent without one, so that there is nothing to find it by."""
    strange = replace(question(family), reference=IdempotencyKey("a b " * 30))
    async with LookUpWitness() as witness, asked_of(witness, family) as gateway:
        said = await asked(gateway, strange)
        assert (said.finding, said.is_silence) == (Finding.UNKNOWN, False)
        assert not witness.asked


@pytest.mark.parametrize("family", named("postmark", "mailjet", "sinch"), ids=str)
async def test_a_count_without_its_messages_proves_nothing(family: Family) -> None:
    async with LookUpWitness(record(family)) as witness, asked_of(witness, family) as gateway:
        witness.empty_page_first = True
        assert (await asked(gateway, question(family))).finding is Finding.UNKNOWN


NO_ANSWERS = [
    Reply(429, b'{"code": 20429, "message": "Too many requests"}', headers={"Retry-After": "7"}),
    Reply(503, b"<h1>Down for maintenance</h1>", "text/html"),
    Reply(500, b"{}"),
    Reply(404, b'{"messages": [], "calls": [], "data": []}'),
    Reply(200, b"<html><body>Sign in to the network</body></html>", "text/html"),
    Reply(200, b'{"code": 20003, "message": "Authenticate", "status": 401}'),
    Reply(200, b"{}"),
    Reply(200, b"null"),
    Reply(200, b'"ok"', "text/plain"),
    Reply(200, b""),
    Reply(302, b"", headers={"Location": "/elsewhere"}),
    Reply(200, b'{"messages": [{"sid"'),
]


@families
@pytest.mark.parametrize("reply", NO_ANSWERS, ids=lambda each: f"{each.status}-{each.body[:20]!r}")
async def test_an_answer_that_is_none_proves_nothing(family: Family, reply: Reply) -> None:
    """Taken for an empty list, it would send everybody a second message."""
    async with LookUpWitness() as witness, asked_of(witness, family) as gateway:
        if family.name == "bluesky":
            # It gives a session, and then no answer.
            witness.replies.append(reply)
        else:
            witness.always = reply
        said = await asked(gateway, question(family))
        assert (said.finding, said.is_silence) == (Finding.UNKNOWN, True)
        assert PLANTED not in said.detail
        retry_after = reply.headers.get("Retry-After")
        assert said.retry_after_seconds == (None if retry_after is None else float(retry_after))


@listing
async def test_a_list_is_read_page_by_page_to_the_time_of_the_call(family: Family) -> None:
    now = datetime.now(UTC)
    newer = [
        record(family, id=f"{900 + n}", text="Later", at=now - timedelta(seconds=n))
        for n in range(7)
    ]
    ours = record(family, id="800", at=now - timedelta(minutes=5))
    if family in WITHOUT_TEXT:
        # What was said is not part of the record: only ours is from this number.
        newer = [replace(each, sender="+15550009999") for each in newer]
    async with LookUpWitness(*newer, ours) as witness, asked_of(witness, family) as gateway:
        assert (await asked(gateway, question(family))).provider_message_ids == ("800",)
        assert len(witness.asked) > 3


@pytest.mark.parametrize("family", DATED, ids=str)
async def test_what_happened_before_the_call_is_not_it(family: Family) -> None:
    old = record(family, at=datetime.now(UTC) - timedelta(minutes=20))
    async with LookUpWitness(old) as witness, asked_of(witness, family) as gateway:
        assert (await asked(gateway, question(family))).finding is Finding.ABSENT


async def test_slacks_history_is_read_to_its_end_and_not_to_where_it_is_cut_off() -> None:
    now, slack = datetime.now(UTC), named("slack")[0]
    others = [
        record(slack, id=f"{900 + n}", reference=f"ref-{n}", at=now - timedelta(seconds=n))
        for n in range(2, 9)
    ]
    ours = record(slack, id="800", at=now - timedelta(minutes=5))
    async with LookUpWitness(*others, ours) as witness, asked_of(witness, slack) as gateway:
        assert (await asked(gateway, question(slack))).provider_message_ids == ("800",)
        witness.is_cut_off = True
        said = await asked(gateway, question(slack))
        assert (said.finding, said.is_silence) == (Finding.UNKNOWN, True)


async def test_a_slack_message_of_our_text_without_metadata_is_not_absent() -> None:
    """Without the scope for it, no message shows its reference: ours would be sent again."""
    slack, text = named("slack")[0], f"*{SUBJECT}*\nTables & chairs"
    async with (
        LookUpWitness(record(slack, text=text)) as witness,
        asked_of(witness, slack) as gateway,
    ):
        witness.shows_metadata = False
        said = await asked(gateway, question(slack, text="Tables & chairs"))
        assert (said.finding, said.is_silence) == (Finding.UNKNOWN, True)
        said = await asked(gateway, question(slack, text="Something else"))
        assert said.finding is Finding.ABSENT


def test_every_family_that_can_be_asked_is_tried_here() -> None:
    asked_for = {
        name for name, each in GATEWAY_TYPES.items()
        if each.evidence.look_up is not None or each.evidence.declared_look_up
    }  # fmt: skip
    assert {each.name for each in FAMILIES} == asked_for


async def test_an_empty_page_is_not_the_end_of_a_list() -> None:
    sms, mail = Family("twilio_sms", PHONE), Family("resend", MAIL)
    async with LookUpWitness(record(sms)) as witness, asked_of(witness, sms) as gateway:
        witness.empty_page_first = True
        assert (await asked(gateway, question(sms))).finding is Finding.FOUND
    async with LookUpWitness(record(mail)) as witness, asked_of(witness, mail) as gateway:
        witness.empty_page_first = True
        # Its next page is named by the last of this one, which it does not have.
        assert (await asked(gateway, question(mail))).finding is Finding.UNKNOWN


@pytest.mark.parametrize("family", DATED, ids=str)
@pytest.mark.parametrize("minutes", [-3, 3])
async def test_times_are_not_compared_with_those_of_another_clock(
    family: Family, minutes: int
) -> None:
    """A provider that is behind dates a message before its call; then it would seem absent."""
    off = timedelta(minutes=minutes)
    ours = record(family, at=datetime.now(UTC) + off - timedelta(minutes=9))
    async with LookUpWitness(ours) as witness, asked_of(witness, family) as gateway:
        witness.clock_off = off
        said = await asked(gateway, question(family))
        assert said.finding is Finding.UNKNOWN
        assert "clock" in said.detail


@textual
async def test_another_text_to_the_same_recipient_is_neither_ours_nor_a_proof(
    family: Family,
) -> None:
    """Not even if it ends with ours; and what the provider may have changed is not absent."""
    longer = record(family, text=f"Dear Ada! {TEXT}")
    async with LookUpWitness(longer) as witness, asked_of(witness, family) as gateway:
        said = await asked(gateway, question(family))
        assert said.finding is Finding.ABSENT
        # A post has no recipient: every other post of the account has another text.
        unclear = () if family.name == "mastodon" else ("m-1",)
        assert said.unclear_ids == unclear


async def test_a_trial_account_puts_its_own_words_before_a_text() -> None:
    sms = Family("twilio_sms", PHONE)
    shown = record(sms, text=f"Sent from your Twilio trial account - {TEXT}")
    async with LookUpWitness(shown) as witness, asked_of(witness, sms) as gateway:
        assert (await asked(gateway, question(sms))).finding is Finding.FOUND


@pytest.mark.parametrize("family", TWILIO, ids=str)
async def test_a_senders_number_is_the_same_however_it_is_spelt(family: Family) -> None:
    """Compared as texts, a call that was made would be made again."""
    async with LookUpWitness(record(family)) as witness:
        async with asked_of(witness, family, **{"from": "+1 (555) 000-1111"}) as gateway:
            assert (await asked(gateway, question(family))).finding is Finding.FOUND
        async with asked_of(witness, family, **{"from": "+15559998888"}) as gateway:
            said = await asked(gateway, question(family))
            assert (said.finding, said.unclear_ids) == (Finding.ABSENT, ("m-1",))


@pytest.mark.parametrize("family", [*TWILIO, *named("plivo")], ids=str)
async def test_an_answer_about_another_number_proves_nothing(family: Family) -> None:
    async with (
        LookUpWitness(record(family, to="+447700900999")) as witness,
        asked_of(witness, family) as gateway,
    ):
        witness.shows_everything = True
        assert (await asked(gateway, question(family))).finding is Finding.UNKNOWN


@pytest.mark.parametrize("family", named("resend", "mastodon"), ids=str)
async def test_one_text_that_cannot_be_read_leaves_the_others_clear(family: Family) -> None:
    """Deleted meanwhile, or larger than an answer may be."""
    mine = record(family, id="222", text="Another text of ours")
    async with LookUpWitness(record(family), mine) as witness:
        witness.unreadable = {record(family).id}
        async with asked_of(witness, family) as gateway:
            said = await gateway.look_up(
                [question(family), question(family, 2, "Another text of ours")]
            )
        first, second = said.values()
        assert (first.finding, first.unclear_ids[:1]) == (Finding.ABSENT, (record(family).id,))
        assert second.provider_message_ids == ("222",)


async def test_a_mailbox_may_have_a_name_and_a_post_other_line_ends() -> None:
    mail, post = Family("resend", MAIL), Family("mastodon", "")
    named = record(mail, to="Ada Lovelace <Ada@Example.test>")
    async with LookUpWitness(named) as witness, asked_of(witness, mail) as gateway:
        assert (await asked(gateway, question(mail))).finding is Finding.FOUND
    written = record(post, text="One\r\n\r\ntwo cafe\u0301 ")
    async with LookUpWitness(written) as witness, asked_of(witness, post) as gateway:
        said = await asked(gateway, question(post, text="One\n\ntwo caf\u00e9"))
        assert said.finding is Finding.FOUND


@listing
async def test_a_provider_that_takes_too_long_does_not_hold_up_the_others(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.gateways.provider.LOOK_UP_WINDOW_SECONDS", 0.2)
    monkeypatch.setattr(look_ups, "LOOK_UP_SECONDS", 30.0)
    monkeypatch.setattr(look_ups, "LOOK_UP_WINDOW_SECONDS", 60.0)
    async with LookUpWitness(record(family)) as witness, asked_of(witness, family) as gateway:
        witness.late.clear()
        said = await asked(gateway, question(family))
        assert (said.finding, said.is_silence) == (Finding.UNKNOWN, True)


async def test_after_a_throttle_no_more_questions_are_asked_for_now() -> None:
    sms = Family("twilio_sms", PHONE)
    async with LookUpWitness(record(sms)) as witness, asked_of(witness, sms) as gateway:
        witness.replies.append(NO_ANSWERS[0])
        said = await gateway.look_up([question(sms, number) for number in range(1, 6)])
        assert len(witness.asked) == 1
        assert {each.finding for each in said.values()} == {Finding.UNKNOWN}


@listing
async def test_another_account_has_other_records(family: Family) -> None:
    async with LookUpWitness() as witness:
        async with asked_of(witness, family) as gateway:
            first = gateway.records
        async with asked_of(witness, family) as gateway:
            assert gateway.records == first
        if family.name.startswith("twilio"):
            async with asked_of(witness, family, accountSid="AC456") as gateway:
                assert gateway.records != first
    assert PLANTED not in first
    assert base64.b64encode(PLANTED.encode()).decode() not in first


def test_a_twilio_resource_has_to_say_what_agrees() -> None:
    assert "agrees" in TwilioGateway.__abstractmethods__
    assert not twilio.TwilioSmsGateway.__abstractmethods__
    assert not twilio.TwilioVoiceGateway.__abstractmethods__
