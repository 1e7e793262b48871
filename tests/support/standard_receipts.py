"""A reader of receipts for tests of the kernel: Standard Webhooks, with a secret per target."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.ports.receipts import (
    Callback,
    Challenge,
    ReceiptReader,
    Refusal,
    RefusedFor,
    Verified,
)

STALE_SECONDS = 300


def signed(secret: bytes, body: bytes, *, at: float | None = None) -> dict[str, str]:
    moment = str(int(time.time() if at is None else at))
    digest = hmac.new(secret, f"w-1.{moment}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": "w-1",
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def body_of(*receipts: Mapping[str, Any]) -> bytes:
    return json.dumps({"receipts": receipts}).encode()


@dataclass(frozen=True)
class StandardReader:
    secret: bytes

    async def prepare(self, callback: Callback, now: datetime) -> None:
        pass

    def read(self, callback: Callback, now: datetime) -> Verified | Challenge | Refusal:
        if callback.method == "GET":
            return Challenge(callback.query.get("challenge", ""))
        if "webhook-signature" not in callback.headers:
            return Refusal(RefusedFor.UNSIGNED, "there is no signature")
        moment = callback.headers["webhook-timestamp"]
        expected = signed(self.secret, callback.body, at=float(moment))["webhook-signature"]
        if not hmac.compare_digest(expected, callback.headers["webhook-signature"]):
            return Refusal(RefusedFor.FORGED, "the signature is not of this target's secret")
        if abs(now.timestamp() - float(moment)) > STALE_SECONDS:
            return Refusal(RefusedFor.STALE, "the timestamp is too old")
        try:
            told = json.loads(callback.body)["receipts"]
            return Verified([_receipt(each) for each in told])
        except (ValueError, KeyError, TypeError):
            return Refusal(RefusedFor.MALFORMED, "the body is not a list of receipts")


def _receipt(told: Mapping[str, Any]) -> Receipt:
    occurred_at = told.get("occurredAt")
    return Receipt(
        told["receiptId"],
        ReceiptEvent(told["event"]),
        told.get("referenceId"),
        told.get("gatewayMessageId"),
        told.get("permanent", False),
        told.get("reason", ""),
        told.get("from"),
        told.get("text"),
        datetime.fromisoformat(occurred_at) if occurred_at else None,
    )


@dataclass
class StandardReaders:
    """By workspace and target."""

    secrets: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def reader(self, workspace: str, submission_target: str) -> ReceiptReader | None:
        secret = self.secrets.get((workspace, submission_target))
        return None if secret is None else StandardReader(secret)
