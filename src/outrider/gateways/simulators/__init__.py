"""The providers that the simulator plays, one file each; older ones are rows of `sandbox_*.py`, and
`apns` is served by `sandbox_http2.py`."""

from collections.abc import Mapping
from typing import Final

from outrider.gateways.sandbox_protocol import Simulator
from outrider.gateways.simulators import (
    bluesky,
    brevo,
    expo,
    infobip,
    mailgun,
    mailjet,
    plivo,
    postmark,
    sendgrid,
    ses,
    sinch,
    slack,
    telegram,
    telnyx,
    vonage,
    web_push,
)

SIMULATORS: Final[Mapping[str, Simulator]] = {
    each.provider.protocol: each
    for each in (
        ses.SIMULATOR,
        sendgrid.SIMULATOR,
        mailgun.SIMULATOR,
        postmark.SIMULATOR,
        brevo.SIMULATOR,
        mailjet.SIMULATOR,
        telnyx.SIMULATOR,
        vonage.SIMULATOR,
        sinch.SIMULATOR,
        infobip.SIMULATOR,
        plivo.SIMULATOR,
        expo.SIMULATOR,
        web_push.SIMULATOR,
        slack.SIMULATOR,
        telegram.SIMULATOR,
        bluesky.SIMULATOR,
    )
}
