"""A submission target for every gateway family: its options, and credentials that are planted.

The planted values are unlike anything else, so a test can look for them wherever they must not be.
"""

from collections.abc import Sequence

from outrider.domain.workspaces import WorkspaceName
from outrider.gateways.sandbox import Sandbox
from outrider.gateways.sandbox_certificate import certificate_file
from outrider.settings import TargetSettings

PLANTED = "planted-5ecret-7f3a9c" + "0" * 22
"""In base64url, it is also the 32 bytes of a key."""


class PlantedSecrets:
    """Resolves every reference to the one planted value."""

    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:  # noqa: ARG002
        return dict.fromkeys(references, PLANTED)


def _target(*credentials: str, **options: str) -> TargetSettings:
    return TargetSettings(options=options, credentials=dict.fromkeys(credentials, "env:PLANTED"))


FROM = {"from": "News <news@example.test>"}
SENDER = {"from": "+15550001111"}


TARGETS: dict[str, TargetSettings] = {
    # The sandbox knows every reference of theirs again.
    "sms": TargetSettings(remembers_references="for_good"),
    "push": TargetSettings(remembers_references="for_good"),
    "smtp": TargetSettings(),
    "noop": TargetSettings(),
    "resend": _target("apiKey", **FROM),
    "ses": _target("accessKeyId", "secretAccessKey", region="eu-west-1", **FROM),
    "sendgrid": _target("apiKey", **FROM),
    "mailgun": _target("apiKey", domain="mg.example.test", **FROM),
    "postmark": _target("serverToken", **FROM),
    "brevo": _target("apiKey", **FROM),
    "mailjet": _target("apiKey", "secretKey", **FROM),
    "twilio_sms": _target("authToken", accountSid="AC123", **{"from": "+15550001111"}),
    "twilio_voice": _target("authToken", accountSid="AC123", **{"from": "+15550001111"}),
    "telnyx": _target("apiKey", **SENDER),
    "vonage": _target("apiKey", "apiSecret", **SENDER),
    "sinch": _target("apiToken", servicePlanId="plan", **SENDER),
    "infobip": _target("apiKey", **SENDER),
    "plivo": _target("authToken", authId="AC123", **SENDER),
    "whatsapp_cloud": _target("accessToken", phoneNumberId="106540352242922"),
    "fcm": _target("accessToken", project="shop"),
    "apns": _target(
        "privateKey", keyId="KEY123", teamId="TEAM45", topic="test.example.shop",
        caFile=str(certificate_file()),
    ),
    "web_push": _target("privateKey", subject="mailto:ops@example.test"),
    "expo": _target("accessToken"),
    "slack": _target("botToken", channel="C123"),
    "telegram": _target("botToken", chatId="-100123"),
    "mastodon": _target("accessToken"),
    "bluesky": _target("appPassword", identifier="news.example.test"),
}  # fmt: skip

SIGNS_IN = frozenset({"bluesky"})
"""Families that make another request first, so that one answer does not suffice to try them."""
HTTP2 = frozenset({"apns"})
"""Families that an HTTP/1.1 server cannot answer; tests/gateways/test_apns.py is about them."""
DEVICE = "ab12" * 16
"""A device token of Apple's."""


def url_of(sandbox: Sandbox, family: str) -> str:
    """Where the sandbox plays a family's provider."""
    if family == "smtp":
        return sandbox.smtp_url
    return sandbox.http2.url if family in HTTP2 else sandbox.http_url
