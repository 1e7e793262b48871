"""The phase `sender_validation`, against a real name server: each thing that can be wrong is found,
alone, and said with what to do."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from outrider.domain.campaigns import Message
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import Scope
from outrider.domain.mailbox import MailHead
from outrider.domain.purposes import Purpose
from outrider.domain.states import Channel
from outrider.gateways.directory import Gateways
from outrider.gateways.dkim import DkimSigner, read_key
from outrider.gateways.mail_sender import MailSender
from outrider.phases.dns_records import DnsRecords
from outrider.phases.sender_checks import CHECKS
from outrider.phases.sender_validation import SenderValidation
from outrider.phases.spf import SpfResult, check_host
from outrider.ports.phases import PhaseJob, PhaseResult
from outrider.secrets.store import LocalSecrets
from outrider.settings import TargetSettings
from tests.kernel.work.test_phase_handlers import MemoryDesk
from tests.support.dkim_keys import ed25519_key, rsa_key
from tests.support.dns_server import Trouble, Zone, name_server

ADDRESS = "203.0.113.9"
REVERSED = "9.113.0.203.in-addr.arpa"
RSA = DkimSigner("shop.example", "s1", read_key(rsa_key().pem))
WEAK = DkimSigner("shop.example", "s1", read_key(rsa_key(1024).pem))
ED25519 = DkimSigner("shop.example", "e1", read_key(ed25519_key().pem))
SENDER = MailSender(
    "shop.example", "mail.shop.example", (RSA, ED25519),
    has_list_unsubscribe=False, is_encrypted=True, host="relay.example", sends_from=(ADDRESS,),
)  # fmt: skip
LAUNCHED = Message("offer", Channel.EMAIL, "mail.offers", "Hi", "Offer")


def txt(*texts: str) -> Mapping[str, list[str]]:
    """As a zone file has it: in strings of at most 255 bytes."""
    return {
        "TXT": [
            " ".join(f'"{text[at : at + 250]}"' for at in range(0, len(text), 250))
            for text in texts
        ]
    }


GOOD: dict[str, Mapping[str, list[str]] | Trouble] = {
    "shop.example": {"MX": ["10 mx.shop.example."], **txt("v=spf1 -all", "some=thing else")},
    "mail.shop.example": {"MX": ["10 mx.shop.example."], **txt(f"v=spf1 ip4:{ADDRESS} -all")},
    "s1._domainkey.shop.example": txt(RSA.key.record),
    "e1._domainkey.shop.example": txt(ED25519.key.record),
    "_dmarc.shop.example": txt("v=DMARC1; p=reject; rua=mailto:d@shop.example"),
    REVERSED: {"PTR": ["out.shop.example."]},
    "out.shop.example": {"A": [ADDRESS]},
}


async def validated(
    zone: Zone = GOOD,
    sender: MailSender | None = SENDER,
    *,
    message: Message = LAUNCHED,
    has_links: bool = True,
) -> tuple[PhaseResult, dict[str, dict[str, str]]]:
    async def sender_of(_scope: Scope, target: str) -> MailSender | None:
        assert target == "mail.offers"
        return sender

    async with name_server(zone) as server:
        phase = SenderValidation(
            sender_of, [server.address], has_links=has_links, timeout_seconds=0.3, tries=1
        )
        desk = MemoryDesk(messages=[message])
        [plan] = await phase.plan(desk)
        result = await phase.process(desk, PhaseJob("job", plan.items, plan.detail))
    assert result.succeeded + result.failed + result.skipped == plan.items == len(CHECKS)
    detail: Any = result.detail
    return result, {each["check"]: each for each in detail["findings"]}


def wrong(findings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What is not well, in short; each says what to do."""
    bad = {name: each for name, each in findings.items() if each["state"] in ("failed", "unknown")}
    assert all(each["hint"] for each in bad.values())
    return {name: f"{each['state']}: {each['found']}" for name, each in bad.items()}


async def test_a_sender_that_does_everything_right_passes_every_check() -> None:
    result, findings = await validated()
    assert wrong(findings) == {}
    assert (result.succeeded, result.failed, result.skipped) == (len(CHECKS), 0, 0)
    assert list(findings) == list(CHECKS)


@pytest.mark.parametrize(
    ("zone", "sender", "found"),
    [
        ({"mail.shop.example": {"MX": ["1 mx."]}}, SENDER, {"spf": "has no SPF record"}),
        ({"mail.shop.example": {"MX": ["1 mx."], **txt("v=spf1 ip4:192.0.2.1 -all")}}, SENDER,
         {"spf": "fail for 203.0.113.9"}),
        ({"mail.shop.example": {"MX": ["1 mx."], **txt("v=spf1 +all")}}, SENDER,
         {"spf": "lets everybody send"}),
        ({"mail.shop.example": {"MX": ["1 mx."], **txt("v=spf1 -all", "v=spf1 ~all")}}, SENDER,
         {"spf": "2 SPF records"}),
        ({"mail.shop.example": {"MX": ["1 mx."], **txt("v=spf1 include:nobody.example -all")}},
         SENDER, {"spf": "nobody.example, which has no SPF record"}),
        ({"mail.shop.example": {"MX": ["1 mx."], **txt("v=spf1 exists:%{i}.a.example -all")}},
         SENDER, {"spf": "unknown: 203.0.113.9: the SPF record depends on the macro"}),
        ({"s1._domainkey.shop.example": None}, SENDER, {"dkim": "has no TXT record"}),
        ({"s1._domainkey.shop.example": txt(WEAK.key.record)}, SENDER, {"dkim": "another key"}),
        ({"e1._domainkey.shop.example": txt(RSA.key.record)}, SENDER, {"dkim": "not the record"}),
        ({"s1._domainkey.shop.example": txt(f"{RSA.key.record}; t=y")}, SENDER, {"dkim": "a test"}),
        ({"s1._domainkey.shop.example": txt(WEAK.key.record)}, replace(SENDER, signers=(WEAK,)),
         {"dkim": "has 1024 bits"}),
        ({}, replace(SENDER, signers=()),
         {"dkim": "does not sign", "one_click": "not signed"}),
        ({"_dmarc.shop.example": None}, SENDER, {"dmarc": "has no DMARC record"}),
        ({"_dmarc.shop.example": txt("v=DMARC1; p=maybe")}, SENDER, {"dmarc": "p=maybe"}),
        ({"_dmarc.shop.example": txt("v=DMARC1; p=none", "v=DMARC1; p=reject")}, SENDER,
         {"dmarc": "2 DMARC records", "alignment": "2 DMARC records"}),
        ({"other.example": txt("v=spf1 -all"), "s1._domainkey.other.example": txt(RSA.key.record)},
         replace(SENDER, signers=(RSA._replace(domain="other.example"),)), {}),
        ({"other.example": {"MX": ["1 mx."], **txt(f"v=spf1 ip4:{ADDRESS} -all")},
          "s1._domainkey.other.example": txt(RSA.key.record)},
         replace(SENDER, signers=(RSA._replace(domain="other.example"),),
                 envelope_domain="other.example"),
         {"alignment": "nothing that is checked belongs to shop.example"}),
        ({"_dmarc.shop.example": txt("v=DMARC1; p=reject; aspf=s; adkim=s")},
         replace(SENDER, signers=(RSA._replace(domain="mail.shop.example"),)),
         {"alignment": "nothing", "dkim": "has no TXT record"}),
        ({REVERSED: None}, SENDER, {"ptr": "has no PTR record"}),
        ({"out.shop.example": {"A": ["192.0.2.7"]}}, SENDER, {"ptr": "has another address"}),
        ({}, replace(SENDER, is_encrypted=False), {"tls": "unencrypted"}),
        ({"shop.example": None}, SENDER, {"sender_domain": "neither an MX record nor an address"}),
        ({}, replace(SENDER, sends_from=(), host="127.0.0.1"),
         {"spf": "unknown: mail.shop.example: v=spf1", "ptr": "unknown: 127.0.0.1 has no public"}),
        ({"s1._domainkey.shop.example": Trouble.SERVFAIL}, SENDER,
         {"dkim": "unknown: TXT of s1._domainkey.shop.example: no name server"}),
        ({REVERSED: Trouble.SILENCE}, SENDER, {"ptr": "unknown: PTR of"}),
    ],
)  # fmt: skip
async def test_each_thing_that_is_wrong_is_found_alone(
    zone: dict[str, Any], sender: MailSender, found: dict[str, str]
) -> None:
    changed = {name: each for name, each in {**GOOD, **zone}.items() if each is not None}
    result, findings = await validated(changed, sender)
    bad = wrong(findings)
    assert bad.keys() == found.keys(), bad
    for check, words in found.items():
        assert words in bad[check]
    assert result.failed == len(found)


async def test_the_servers_public_address_is_checked_if_the_target_names_none() -> None:
    zone = {**GOOD, "relay.example": {"A": [ADDRESS.replace("203.0.113", "8.8.8")]}}
    _, findings = await validated(zone, replace(SENDER, sends_from=()))
    assert "8.8.8.9" in findings["spf"]["found"]
    assert "8.8.8.9" in findings["ptr"]["found"]


async def test_a_sender_at_a_mailbox_provider_is_told_so() -> None:
    _, findings = await validated(sender=replace(SENDER, from_domain="gmail.com"))
    assert "Send from a domain of your own" in findings["sender_domain"]["hint"]


@pytest.mark.parametrize(
    ("transactional", "has_links", "list_unsubscribe", "state"),
    [
        (False, True, False, "passed"),
        (False, False, True, "passed"),
        (False, False, False, "failed"),
        (True, False, False, "not_needed"),
    ],
)
async def test_one_click_is_for_what_one_can_unsubscribe_from(
    transactional: bool, has_links: bool, list_unsubscribe: bool, state: str
) -> None:
    message = replace(LAUNCHED, purpose=Purpose(transactional=transactional))
    sender = replace(SENDER, has_list_unsubscribe=list_unsubscribe)
    result, findings = await validated(sender=sender, message=message, has_links=has_links)
    assert findings["one_click"]["state"] == state
    assert result.skipped == (state == "not_needed")


async def test_a_provider_that_sends_in_its_own_name_is_skipped() -> None:
    result, findings = await validated(sender=None)
    assert result.skipped == len(CHECKS)
    assert "provider" in findings["setup"]["found"]


async def test_a_target_that_cannot_be_used_fails_in_words() -> None:
    async def sender_of(_scope: Scope, _target: str) -> MailSender | None:
        raise InvalidInput("no such target", hint="register it")

    phase, desk = SenderValidation(sender_of), MemoryDesk(messages=[LAUNCHED])
    [plan] = await phase.plan(desk)
    result = await phase.process(desk, PhaseJob("job", plan.items, plan.detail))
    assert result.failed == plan.items
    assert "register it" in str(result.detail)


async def test_only_mail_has_senders_and_each_target_is_one_job() -> None:
    async def sender_of(_scope: Scope, _target: str) -> MailSender | None:
        raise AssertionError("planning asks nobody")

    paid = replace(LAUNCHED, id="paid", purpose=Purpose(transactional=True))
    others = [
        replace(paid, submission_target="mail.receipts"),
        Message("text", Channel.SMS, "sms.realtime", "Hi"),
    ]
    plans = await SenderValidation(sender_of).plan(MemoryDesk(messages=[paid, LAUNCHED, *others]))
    assert [plan.detail for plan in plans] == [
        {"target": "mail.offers", "oneClick": True},
        {"target": "mail.receipts", "oneClick": False},
    ]


async def test_a_gateway_says_in_whose_name_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DKIM_TEST_KEY", rsa_key().pem)
    monkeypatch.setenv("RECEIPTS_TEST_SECRET", "whsec_" + "QUJD" * 8)
    settings = TargetSettings(
        options={
            "from": "News <news@shop.example>", "returnPath": "bounces@mail.shop.example",
            "dkimSelector": "s1", "sendsFrom": "203.0.113.9, 2001:DB8::1", "starttls": "off",
        },
        credentials={"dkimKey": "env:DKIM_TEST_KEY", "receiptsSecret": "env:RECEIPTS_TEST_SECRET"},
    )  # fmt: skip
    gateways = Gateways(LocalSecrets(), targets={"mail": settings})
    sender = gateways.mail_sender("mail", "smtp", "smtp://relay.example")
    assert sender is not None
    assert (sender.from_domain, sender.envelope_domain) == ("shop.example", "mail.shop.example")
    assert [each.name for each in sender.signers] == ["s1._domainkey.shop.example"]
    assert (sender.sends_from, sender.is_encrypted) == ((ADDRESS, "2001:db8::1"), False)
    assert gateways.mail_sender("nothing", "noop", "http://127.0.0.1") is None
    await gateways.close()


def test_what_is_no_address_cannot_be_sent_from() -> None:
    bad = TargetSettings(options={"sendsFrom": "somewhere"})
    gateways = Gateways(LocalSecrets(), targets={"mail": bad})
    with pytest.raises(InvalidInput, match="sendsFrom"):
        gateways.gateway("mail", "smtp", "smtp://a.example")


SPF_ZONE: Zone = {
    "a.example": {"A": ["192.0.2.10"], "AAAA": ["2001:db8::10"]},
    "b.example": {"MX": ["1 a.example.", "2 c.example."]},
    "c.example": {"A": ["192.0.2.77"]},
    "ok.example": txt("v=spf1 ip4:192.0.2.10 -all"),
    "loop.example": txt("v=spf1 include:loop.example -all"),
    **{
        f"r{number}.example": txt(record)
        for number, record in enumerate(
            [
                "v=spf1 a:a.example -all",
                "v=spf1 mx:b.example ~all",
                "v=spf1 a:c.example/24 -all",
                "v=spf1 include:ok.example ?all",
                "v=spf1 redirect=ok.example",
                "v=spf1 exists:a.example -all",
                "v=spf1 ip6:2001:db8::/32 -all",
                "v=spf1 -ip4:192.0.2.0/24 +all",
                "v=spf1",
                "v=spf1 ptr ~all",
                "v=spf1 nonsense -all",
                "v=spf1 ip4:nowhere -all",
                "v=spf1 redirect=nobody.example",
                "V=SPF1 A:a.example//64 -all",
            ]
        )
    },
}


@pytest.mark.parametrize(
    ("domain", "result"),
    [
        ("r0.example", SpfResult.PASS),
        ("r1.example", SpfResult.PASS),
        ("r2.example", SpfResult.PASS),
        ("r3.example", SpfResult.PASS),
        ("r4.example", SpfResult.PASS),
        ("r5.example", SpfResult.PASS),
        ("r6.example", SpfResult.FAIL),
        ("r7.example", SpfResult.FAIL),
        ("r8.example", SpfResult.NEUTRAL),
        ("r9.example", SpfResult.SOFT_FAIL),
        ("r10.example", SpfResult.ERROR),
        ("r11.example", SpfResult.ERROR),
        ("r12.example", SpfResult.ERROR),
        ("r13.example", SpfResult.PASS),
        ("loop.example", SpfResult.ERROR),
        ("c.example", SpfResult.NONE),
    ],
)
async def test_spf_is_evaluated_as_receivers_do(domain: str, result: SpfResult) -> None:
    async with name_server(SPF_ZONE) as server:
        records = DnsRecords([server.address], timeout_seconds=1.0)
        assert (await check_host(records, "192.0.2.10", domain)).result is result


async def test_spf_knows_both_kinds_of_address() -> None:
    async with name_server(SPF_ZONE) as server:
        records = DnsRecords([server.address], timeout_seconds=1.0)
        for domain in ("r0.example", "r6.example", "r13.example"):
            verdict = await check_host(records, "2001:db8::10", domain)
            assert verdict.result is SpfResult.PASS, verdict


async def test_each_domain_that_a_campaign_sends_from_is_checked() -> None:
    own = replace(LAUNCHED, id="own", head=MailHead("Events <hello@events.example>"))
    same = replace(LAUNCHED, id="same", head=MailHead("team@shop.example"))
    phase = SenderValidation(_sender_of_shop, [])
    plans = await phase.plan(MemoryDesk(messages=[LAUNCHED, own, same]))
    domains = [(each.detail or {}).get("fromDomain") for each in plans]
    assert domains == [None, "events.example", "shop.example"]
    _, findings = await validated(message=own)
    found = wrong(findings)
    assert "events.example" in found["sender_domain"]


async def _sender_of_shop(_scope: Scope, _target: str) -> MailSender | None:
    return SENDER
