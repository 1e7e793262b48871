"""The registry of submission targets: all contracts, or every problem with its path."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.documents.registry import Registry, parse_registry
from outrider.domain.contracts import contract_document, contract_from_document, contract_sha256
from outrider.domain.errors import InvalidInput
from outrider.domain.reference_memory import FOR_GOOD
from outrider.domain.states import Channel
from outrider.domain.submission import Contract, Deadline, GatewayType, MaxAttempts, OneShot

SMS_REASONS = frozenset({"invalid_request", "invalid_recipient", "invalid_message"})
GATEWAY_TYPES = {
    "sms": GatewayType("sms", Channel.SMS, SMS_REASONS, remembers=None),
    "smtp": GatewayType("smtp", Channel.EMAIL, frozenset({"refused"})),
    "noop": GatewayType("noop", Channel.SMS, frozenset(), remembers=FOR_GOOD),
}
TARGET: dict[str, Any] = {
    "submissionTarget": "sms.realtime",
    "gatewayType": "sms",
    "gatewayUrl": "http://localhost:8080",
    "mode": "realtime",
    "policy": "deadline",
    "maxAcceptanceSeconds": 30,
    "terminalOutcomes": ["invalid_request", "invalid_recipient"],
}
SMTP = {"gatewayType": "smtp", "terminalOutcomes": []}
NOOP = {"gatewayType": "noop", "terminalOutcomes": []}


def parse(*targets: object) -> Registry:
    return parse_registry(json.dumps({"targets": targets}).encode(), GATEWAY_TYPES)


def problems(*targets: object) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        parse(*targets)
    return {problem.path: problem.message for problem in caught.value.problems}


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in TARGET.items() if name not in names}


def test_a_target_becomes_a_contract() -> None:
    assert parse(TARGET).contracts == {
        "sms.realtime": Contract(
            "sms.realtime",
            "sms",
            "http://localhost:8080",
            "realtime",
            Deadline(30.0),
            frozenset({"invalid_request", "invalid_recipient"}),
        )
    }


def test_each_policy_takes_its_own_field() -> None:
    bare = without("maxAcceptanceSeconds")
    contracts = parse(
        bare | {"submissionTarget": "a", "policy": "max_attempts", "maxAttempts": 3},
        bare | {"submissionTarget": "b", "policy": "one_shot", "mode": "batch"},
    ).contracts
    assert [contract.policy for contract in contracts.values()] == [MaxAttempts(3), OneShot()]


def test_a_registry_with_many_mistakes_reports_all_of_them() -> None:
    found = problems(
        TARGET,
        TARGET | {"mode": "sometimes", "colour": "blue"},
        without("maxAcceptanceSeconds") | {"submissionTarget": "c"},
        TARGET | {"submissionTarget": "d", "maxAttempts": 3},
        TARGET | {"submissionTarget": "e", "gatewayType": "fax"},
        TARGET | {"submissionTarget": "f|g", "terminalOutcomes": ["accepted", "so what", 3]},
        TARGET | {"submissionTarget": "h", "gatewayUrl": "ftp://localhost"},
        TARGET | {"submissionTarget": "i", "policy": "for_ever"},
        without("policy", "terminalOutcomes") | {"submissionTarget": ""},
        "sms.realtime",
    )
    assert found.keys() == {
        "targets[1].submissionTarget",
        "targets[1].mode",
        "targets[1].colour",
        "targets[2].maxAcceptanceSeconds",
        "targets[3].maxAttempts",
        "targets[4].gatewayType",
        "targets[5].submissionTarget",
        "targets[5].terminalOutcomes[0]",
        "targets[5].terminalOutcomes[1]",
        "targets[5].terminalOutcomes[2]",
        "targets[6].gatewayUrl",
        "targets[7].policy",
        "targets[8].submissionTarget",
        "targets[8].policy",
        "targets[8].terminalOutcomes",
        "targets[9]",
    }
    assert found["targets[1].submissionTarget"] == "is the same as targets[0].submissionTarget"
    assert found["targets[2].maxAcceptanceSeconds"] == "is required where the policy is deadline"
    assert found["targets[3].maxAttempts"] == "should be omitted where the policy is deadline"
    assert "always terminal" in found["targets[5].terminalOutcomes[0]"]
    assert "noop, sms, smtp" in found["targets[4].gatewayType"]


@pytest.mark.parametrize("number", [0, -1, True, "30", 10**12, 10**400, [30]])
def test_a_limit_is_a_positive_number_and_not_absurd(number: object) -> None:
    assert "targets[0].maxAcceptanceSeconds" in problems(TARGET | {"maxAcceptanceSeconds": number})
    counted = without("maxAcceptanceSeconds") | {"policy": "max_attempts", "maxAttempts": number}
    if number != 30:
        assert "targets[0].maxAttempts" in problems(counted)
    assert "targets[0].maxAttempts" in problems(counted | {"maxAttempts": 1.5})


@pytest.mark.parametrize(
    "url",
    [
        "", "localhost:8080", "//localhost", "http://", "http:///path", "http://:80", "ftp://a",
        "http://user:secret@a", "http://user@a", "http://a:port", "http://a:0", "http://a:99999",
        "http://a b", "http://a\r\nb", "http://a\x00", "http://a\\b", "http://[::1", "http://a?b=c",
        "http://a#b", "http://a?", "smtp://a", "noop:", "http://ä.test", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_a_gateway_url_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    found = problems(TARGET | {"gatewayUrl": url})
    assert found.keys() == {"targets[0].gatewayUrl"}
    assert "secret" not in found["targets[0].gatewayUrl"].replace("name a secret", "")


@pytest.mark.parametrize(
    ("family", "url"),
    [
        ({}, "https://gateway.example.test/base"),
        ({}, "http://[::1]:8080"),
        (SMTP, "smtp://localhost:25"),
        (SMTP, "smtps://mail.example.test"),
        (NOOP, "noop:"),
        (NOOP, "noop:anything/at?all"),
    ],
)
def test_a_gateway_url_has_a_scheme_of_its_family(family: dict[str, object], url: str) -> None:
    assert parse(TARGET | family | {"gatewayUrl": url}).contracts["sms.realtime"].gateway_url == url


@pytest.mark.parametrize(("family", "url"), [(SMTP, "http://a"), (NOOP, "http://a")])
def test_a_gateway_url_of_another_family_is_refused(family: dict[str, object], url: str) -> None:
    assert problems(TARGET | family | {"gatewayUrl": url}).keys() == {"targets[0].gatewayUrl"}


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"targets": {}}', b'{"targets": [], "version": 1}', b"[" * 99_999]
)
def test_an_invalid_registry_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_registry(raw, GATEWAY_TYPES)


contracts = st.builds(
    Contract,
    st.text(min_size=1),
    st.text(min_size=1),
    st.text(min_size=1),
    st.sampled_from(["realtime", "batch"]),
    st.builds(Deadline, st.floats(min_value=0.001, max_value=1e9))
    | st.builds(MaxAttempts, st.integers(min_value=1))
    | st.just(OneShot()),
    st.frozensets(st.text()),
)


@given(contracts)
def test_a_contract_survives_being_written_and_read(contract: Contract) -> None:
    stored = json.loads(json.dumps(contract_document(contract)))
    assert contract_from_document(stored) == contract
    assert contract_sha256(contract_from_document(stored)) == contract_sha256(contract)


@given(contracts, contracts)
def test_contracts_have_the_same_address_only_if_they_are_the_same(
    one: Contract, other: Contract
) -> None:
    assert (contract_sha256(one) == contract_sha256(other)) == (one == other)


def test_the_address_of_a_contract_does_not_depend_on_how_it_was_written() -> None:
    written = {**TARGET, "maxAcceptanceSeconds": 30.0}
    written["terminalOutcomes"] = list(reversed(written["terminalOutcomes"]))
    one, other = (parse(entry).contracts["sms.realtime"] for entry in (TARGET, written))
    assert contract_sha256(one) == contract_sha256(other)
    assert contract_document(one) == TARGET | {
        "terminalOutcomes": sorted(TARGET["terminalOutcomes"])
    }


@given(st.binary())
def test_any_bytes_are_a_registry_or_a_list_of_problems(raw: bytes) -> None:
    with suppress(InvalidInput):
        parse_registry(raw, GATEWAY_TYPES)
