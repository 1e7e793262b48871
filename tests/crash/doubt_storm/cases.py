"""The cases of the doubt storm: every family, and by what evidence its doubts settle there."""

from typing import Final

from outrider.gateways.simulators import sendgrid
from tests.crash.settling_scene import CONTENT, KEY, LOOK_UP, NEVER, RECEIPT, Case
from tests.support.provider_targets import PLANTED

STORES: Final = ("sqlite", "postgres")


SNS_TOPIC: Final = {"topicArn": "arn:aws:sns:eu-west-1:1:mine"}

CASES: Final = [
    Case("sms, key", "sms", KEY, {"remembers_references": "for_good"}),
    Case("sms, look-up", "sms", LOOK_UP, NEVER, asks=True),
    Case("push, look-up", "push", LOOK_UP, NEVER, asks=True),
    Case("smtp", "smtp", LOOK_UP, asks=True),
    # Where there is a key and a look-up, what has cost too many workers to be repeated is asked
    # about.
    Case("resend", "resend", KEY | CONTENT),
    Case("ses", "ses", RECEIPT, options=SNS_TOPIC),
    Case(
        "sendgrid", "sendgrid", RECEIPT, receipts={"webhookPublicKey": sendgrid.public_key(PLANTED)}
    ),
    Case("mailgun", "mailgun", LOOK_UP),
    Case("postmark", "postmark", LOOK_UP),
    Case("brevo", "brevo", KEY),
    Case("mailjet", "mailjet", LOOK_UP),
    Case("twilio_sms", "twilio_sms", CONTENT),
    Case("twilio_voice", "twilio_voice", CONTENT),
    Case("telnyx", "telnyx", KEY),
    Case("vonage", "vonage", RECEIPT, receipts={"signatureSecret": PLANTED}),
    Case("sinch", "sinch", LOOK_UP),
    Case("infobip", "infobip", LOOK_UP),
    Case("plivo", "plivo", CONTENT),
    Case("whatsapp_cloud", "whatsapp_cloud", RECEIPT, receipts={"appSecret": PLANTED}),
    Case("fcm", "fcm"),
    Case("apns", "apns", life_seconds=0.6),
    Case("web_push", "web_push", life_seconds=0.6),
    Case("expo", "expo"),
    Case("slack", "slack", LOOK_UP),
    Case("telegram", "telegram"),
    Case("mastodon", "mastodon", KEY | CONTENT),
    Case("bluesky", "bluesky", KEY | LOOK_UP, life_seconds=0.3),
]
