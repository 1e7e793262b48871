"""Signatures against other implementations: `receipt_vectors.json` was made with the providers' own
libraries (PyPI `standardwebhooks`, `svix`, `twilio`, `plivo`, `sinch`, `telnyx`) and openssl, and
holds nothing of ours."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.webhook_signatures import SignatureState, checked, signed_headers, signing_keys
from outrider.gateways.families import (
    plivo_receipts,
    sinch,
    telnyx_receipts,
    twilio_receipts,
    whatsapp_receipts,
)
from outrider.ports.receipts import Callback

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "gateways" / "receipt_vectors.json").read_text()
)


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = VECTORS[name]["cases"]
    assert found
    return found


@pytest.mark.parametrize("name", ["standardWebhooks", "svix"])
def test_standard_webhooks_are_signed_and_checked_as_their_libraries_do(name: str) -> None:
    keys = signing_keys(VECTORS[name]["secret"])
    for case in cases(name):
        body = case["body"].encode()
        sender = "svix" if name == "svix" else "webhook"
        headers = {
            f"{sender}-id": case["id"],
            f"{sender}-timestamp": str(case["timestamp"]),
            f"{sender}-signature": f"v1a,{'A' * 44} {case['signature']}",
        }
        at = case["timestamp"]
        assert checked(keys, headers, body, at, sender) is SignatureState.GENUINE
        assert checked(keys, headers, body, at + 301, sender) is SignatureState.STALE
        assert checked(keys, headers, body, at - 301, sender) is SignatureState.STALE
        assert checked(keys, headers, body + b" ", at, sender) is SignatureState.FORGED
        made = signed_headers(keys, case["id"], at, body)
        assert made["webhook-signature"] == case["signature"]


def test_twilios_requests_are_signed_as_its_library_does() -> None:
    key = VECTORS["twilio"]["authToken"].encode()
    for case in cases("twilio"):
        fields = twilio_receipts._fields(case["body"].encode())
        assert twilio_receipts.signature(key, case["url"], fields) == case["signature"]


def test_metas_requests_are_signed_as_openssl_does() -> None:
    key = VECTORS["hub"]["appSecret"].encode()
    for case in cases("hub"):
        assert whatsapp_receipts.signature(key, case["body"].encode()) == case["signature"]


def test_plivos_requests_are_signed_as_its_library_does() -> None:
    key = VECTORS["plivo"]["authToken"].encode()
    for case in cases("plivo"):
        fields = [(name, value) for name, value in case["fields"]]
        made = plivo_receipts.signature(key, case["url"], fields, case["nonce"])
        assert made == case["signature"]


def test_sinchs_requests_are_signed_as_its_library_does() -> None:
    key = VECTORS["sinch"]["secret"].encode()
    for case in cases("sinch"):
        made = sinch.signature(key, case["body"].encode(), case["nonce"], case["timestamp"])
        assert made == case["signature"]


def test_telnyxs_requests_are_checked_as_its_library_does() -> None:
    reader = telnyx_receipts.TelnyxReader.__new__(telnyx_receipts.TelnyxReader)
    key = base64.b64decode(VECTORS["telnyx"]["publicKey"])
    for case in cases("telnyx"):
        headers = {
            telnyx_receipts.SIGNATURE_HEADER: case["signature"],
            telnyx_receipts.TIMESTAMP_HEADER: case["timestamp"],
        }
        body, at = case["body"].encode(), datetime.fromtimestamp(int(case["timestamp"]), UTC)
        genuine = Callback("POST", "", {}, headers, body)
        assert reader.state([key], genuine, at) is SignatureState.GENUINE
        forged = Callback("POST", "", {}, headers, body + b" ")
        assert reader.state([key], forged, at) is SignatureState.FORGED
