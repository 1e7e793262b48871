"""What a message is for: said by its campaign, or by itself; and kept as it was said."""

import json
from typing import Any

import pytest
from tests.unit.test_campaign_document import check

from outrider.documents.campaign import parse_campaign
from outrider.domain.purposes import Purpose
from outrider.kernel.transactions.campaigns import definition_document, read_definition
from outrider.settings import Settings


def campaign(campaign_says: dict[str, Any], message_says: dict[str, Any]) -> bytes:
    message = {"id": "m", "channel": "sms", "submissionTarget": "sms", "body": "Hi"}
    return json.dumps({"name": "c", "messages": [message | message_says], **campaign_says}).encode()


@pytest.mark.parametrize(
    ("campaign_says", "message_says", "purpose"),
    [
        ({}, {}, Purpose()),
        ({"topic": "news"}, {}, Purpose("news")),
        ({"topic": "news"}, {"topic": "orders"}, Purpose("orders")),
        ({"topic": "news"}, {"transactional": True}, Purpose("news", transactional=True)),
        ({"transactional": True}, {"transactional": False}, Purpose()),
        ({"transactional": True}, {"topic": None, "transactional": None}, Purpose(None, True)),
    ],
)
def test_a_message_inherits_the_purpose_of_its_campaign(
    campaign_says: dict[str, Any], message_says: dict[str, Any], purpose: Purpose
) -> None:
    raw = campaign(campaign_says, message_says)
    definition = parse_campaign(raw, check_template=check, source_root=None).definition
    assert [each.purpose for each in definition.messages] == [purpose]
    assert read_definition(definition_document(definition)) == definition


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ({}, False),
        ({"allow_private_gateways": True}, True),
        ({"allow_private_gateways": False}, False),
        ({"allow_private_gateways": True, "allow_private_callbacks": False}, False),
        ({"allow_private_callbacks": True}, True),
    ],
)
def test_callbacks_are_guarded_unless_somebody_said_otherwise(
    said: dict[str, bool], allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUTRIDER_ALLOW_PRIVATE_GATEWAYS", raising=False)
    settings = Settings.model_validate(said)
    assert settings.allow_private_callbacks is allowed
    for name, value in settings.as_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings().allow_private_callbacks is allowed, "a child process does the same"
