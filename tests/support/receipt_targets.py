"""Submission targets whose providers report: their options, and secrets unlike anything else."""

from collections.abc import Mapping, Sequence

from outrider.domain.errors import InvalidInput
from outrider.domain.workspaces import WorkspaceName
from outrider.gateways.directory import Gateways
from outrider.gateways.simulators import telnyx
from outrider.gateways.simulators.sendgrid import public_key
from outrider.settings import TargetSettings

SECRET = "whsec_" + "T3V0cmlkZXIgcmVjZWlwdCB0ZXN0IHNlY3JldCAwMDE="
OTHER_SECRET = "whsec_" + "QW5vdGhlciBzZWNyZXQgb2YgdGhlIHNhbWUgbGVuZ3Ro"
PUBLIC_URL = "https://news.example.com"

CREDENTIALS: Mapping[str, Sequence[str]] = {
    "sms": ["receiptsSecret"],
    "push": ["receiptsSecret"],
    "smtp": ["receiptsSecret"],
    "resend": ["apiKey", "webhookSecret"],
    "ses": ["accessKeyId", "secretAccessKey"],
    "sendgrid": ["apiKey", "webhookPublicKey"],
    "mailgun": ["apiKey", "webhookSigningKey"],
    "postmark": ["serverToken", "webhookSecret"],
    "brevo": ["apiKey", "webhookSecret"],
    "mailjet": ["apiKey", "secretKey", "webhookSecret"],
    "twilio_sms": ["authToken"],
    "twilio_voice": ["authToken"],
    "telnyx": ["apiKey", "webhookPublicKey"],
    "vonage": ["apiKey", "apiSecret", "signatureSecret"],
    "sinch": ["apiToken", "webhookSecret"],
    "infobip": ["apiKey", "webhookSecret"],
    "plivo": ["authToken"],
    "whatsapp_cloud": ["accessToken", "appSecret", "verifyToken"],
}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "smtp": {"returnPath": "bounces@mail.example"},
    "ses": {"region": "eu-west-1", "topicArn": "arn:aws:sns:eu-west-1:1:mine"},
    "twilio_sms": {"accountSid": "AC123", "from": "+15550001111"},
    "twilio_voice": {"accountSid": "AC123", "from": "+15550001111"},
    "telnyx": {"from": "+15550001111"},
    "vonage": {"from": "+15550001111"},
    "sinch": {"servicePlanId": "plan"},
    "infobip": {"from": "+15550001111"},
    "plivo": {"authId": "AC123", "from": "+15550001111"},
    "whatsapp_cloud": {"phoneNumberId": "106540352242922"},
}


PUBLIC: Mapping[str, str] = {"webhookPublicKey": "_PUBLIC"}
ED25519 = "_ED25519"
"""Credentials that are the public half of a secret have another reference."""


class NamedSecrets:
    """`env:MINE` and `env:OTHER`, which a test may change."""

    def __init__(self) -> None:
        self.values = {"env:MINE": SECRET, "env:OTHER": OTHER_SECRET}
        self.values |= {
            "env:MINE_PUBLIC": public_key(SECRET), "env:OTHER_PUBLIC": public_key(OTHER_SECRET),
            f"env:MINE{ED25519}": telnyx.public_key(SECRET),
            f"env:OTHER{ED25519}": telnyx.public_key(OTHER_SECRET),
        }  # fmt: skip
        self.reads = 0

    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:  # noqa: ARG002
        self.reads += 1
        if not self.values.keys() >= set(references):
            raise InvalidInput("the secret is not there")
        return {reference: self.values[reference] for reference in references}


def _suffix(gateway_type: str, credential: str) -> str:
    suffix = PUBLIC.get(credential, "")
    return ED25519 if suffix and gateway_type == "telnyx" else suffix


def target_settings(gateway_type: str, reference: str = "env:MINE") -> TargetSettings:
    return TargetSettings(
        options=dict(OPTIONS.get(gateway_type, {})),
        credentials={
            name: reference + _suffix(gateway_type, name)
            for name in CREDENTIALS.get(gateway_type, [])
        },
    )


def gateways_of(
    gateway_type: str, secrets: NamedSecrets | None = None, *, sns_url: str | None = None
) -> Gateways:
    """Two targets of a family: `mine`, and `other` with another secret."""
    targets = {
        "mine": target_settings(gateway_type),
        "other": target_settings(gateway_type, "env:OTHER"),
    }
    if gateway_type == "ses":
        # Its topic is what another account does not have.
        for name in targets:
            options = {**OPTIONS["ses"], "topicArn": f"arn:aws:sns:eu-west-1:1:{name}"}
            options |= {} if sns_url is None else {"snsUrl": sns_url}
            targets[name] = targets[name].model_copy(update={"options": options})
    return Gateways(secrets or NamedSecrets(), targets=targets, public_url=PUBLIC_URL)
