"""The providers that the simulator plays, one file each; older ones are rows of `sandbox_*.py`."""

from collections.abc import Mapping
from typing import Final

from outrider.gateways.sandbox_protocol import Simulator
from outrider.gateways.simulators import brevo, mailgun, mailjet, postmark, sendgrid, ses

SIMULATORS: Final[Mapping[str, Simulator]] = {
    each.provider.protocol: each
    for each in (
        ses.SIMULATOR,
        sendgrid.SIMULATOR,
        mailgun.SIMULATOR,
        postmark.SIMULATOR,
        brevo.SIMULATOR,
        mailjet.SIMULATOR,
    )
}
