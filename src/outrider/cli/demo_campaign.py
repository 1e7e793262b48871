"""What the demo sends: three messages with a link in them; each recipient gets one."""

from pathlib import Path

import msgspec

from outrider.domain.campaigns import LAUNCH, CampaignDefinition, Message
from outrider.domain.states import Channel
from outrider.settings import TargetSettings
from outrider.settings.targets import OptOutAnswers

BATCH_SIZE = 200
AUDIENCE_IMPORT, HTTP_VALIDATION, REPORT = "audience_import", "http_validation", "report"
PHASES = (AUDIENCE_IMPORT, HTTP_VALIDATION, LAUNCH, REPORT)
MAIL_TARGET = "smtp.realtime"
CHANNELS = 3
LOOK_UP_PATH = "/sandbox/look-up"
LOOK_UP_DELAY_SECONDS = 0.5


def definition(link: str) -> CampaignDefinition:
    return CampaignDefinition("Demo", PHASES, _messages(link), BATCH_SIZE)


def _messages(link: str) -> tuple[Message, ...]:
    hello, ready = "Hi {{ firstName }}", f"Your table is ready: {link}"
    return (
        Message("text", Channel.SMS, "sms.realtime", f"{hello}. {ready}"),
        Message("note", Channel.PUSH, "push.realtime", ready, hello),
        Message("mail", Channel.EMAIL, MAIL_TARGET, ready, hello),
    )


def write_people(path: Path, count: int, messages: tuple[Message, ...]) -> None:
    """Each channel reaches a third."""
    with path.open("wb") as file:
        for number in range(count):
            person = {
                "id": f"guest-{number}",
                "email": f"guest{number}@example.test",
                "phone": f"+4477{number:08d}",
                "pushToken": f"token-{number}",
                "attributes": {"firstName": f"Guest {number}"},
                "message": messages[number % len(messages)].id,
            }
            file.write(msgspec.json.encode(person) + b"\n")


def target_settings(http_url: str) -> dict[str, TargetSettings]:
    """The demo's simulator remembers every reference for good, and its mail log can be asked. Both
    are declared; its log has every mail before its answer is sent, so it is never behind."""
    remembering = TargetSettings(remembers_references="for_good")
    # The demo counts what was sent: who replies STOP is not answered.
    texts = TargetSettings(
        remembers_references="for_good", answers=OptOutAnswers(provider_answers=True)
    )
    mail = TargetSettings(
        look_up_url=f"{http_url}{LOOK_UP_PATH}", look_up_delay_seconds=LOOK_UP_DELAY_SECONDS
    )
    return {"sms.realtime": texts, "push.realtime": remembering, MAIL_TARGET: mail}


def registry(http_url: str, smtp_url: str) -> bytes:
    targets = [
        {
            "submissionTarget": target,
            "gatewayType": gateway_type,
            "gatewayUrl": url,
            "mode": "realtime",
            "policy": "max_attempts",
            "maxAttempts": 5,
            "terminalOutcomes": [],
        }
        for target, gateway_type, url in (
            ("sms.realtime", "sms", http_url),
            ("push.realtime", "push", http_url),
            (MAIL_TARGET, "smtp", smtp_url),
        )
    ]
    return msgspec.json.encode({"targets": targets})
