"""What a message says, whichever door it came through: rendered here, or a direct intent's payload.

The `sms` and `push` types forward a payload as it came; every other type reads `to`, `subject` and
`body` from it, and says no before any traffic where they are missing.
"""

from typing import NamedTuple

from outrider.ports.gateway import Reservation

INCOMPLETE = "a direct payload needs the texts 'to' and 'body', and 'subject' is a text"


class Content(NamedTuple):
    to: str
    subject: str | None
    body: str


def content(reservation: Reservation, *, addressed: bool = True) -> Content | None:
    """None where a payload is incomplete. What is posted to the public is not `addressed`."""
    payload = reservation.payload
    if payload is None:
        return Content(reservation.address, reservation.subject, reservation.body)
    to, subject, body = payload.get("to"), payload.get("subject"), payload.get("body")
    if to is None and not addressed:
        to = ""
    if not isinstance(to, str) or not isinstance(body, str):
        return None
    if subject is not None and not isinstance(subject, str):
        return None
    return Content(to, subject, body)
