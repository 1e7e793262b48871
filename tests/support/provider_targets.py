"""A submission target for every gateway family: its options, and credentials that are planted.

The planted values are unlike anything else, so a test can look for them wherever they must not be.
"""

from collections.abc import Sequence

from outrider.domain.workspaces import WorkspaceName
from outrider.settings import TargetSettings

PLANTED = "planted-5ecret-7f3a9c"


class PlantedSecrets:
    """Resolves every reference to the one planted value."""

    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:  # noqa: ARG002
        return dict.fromkeys(references, PLANTED)


def _target(*credentials: str, **options: str) -> TargetSettings:
    return TargetSettings(options=options, credentials=dict.fromkeys(credentials, "env:PLANTED"))


FROM = {"from": "News <news@example.test>"}


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
    "whatsapp_cloud": _target("accessToken", phoneNumberId="106540352242922"),
    "fcm": _target("accessToken", project="shop"),
    "mastodon": _target("accessToken"),
}
