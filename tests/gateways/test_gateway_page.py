"""docs/reference/gateways.md says how far a call got; one of its rows contradicted the code.

Every row of that table is tried on real sockets, with our own families and a provider's. A row
without an example here fails the test, and so does one whose example ends in another way.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.domain.call_results import (
    INVALID_ANSWER,
    Accepted,
    AttemptError,
    CallResult,
    Held,
    Progress,
    Rejected,
    Throttled,
)
from outrider.gateways.directory import FAMILIES
from outrider.gateways.family import Target
from outrider.gateways.http_client import HttpClient
from tests.support.broken_server import (
    REFERENCE,
    Behaviour,
    answering,
    closed_port,
    http,
    read_then_close,
    reservation,
    serving,
)
from tests.support.provider_targets import TARGETS, PlantedSecrets

PAGE = Path(__file__).parents[2] / "docs/reference/gateways.md"
HEADING = "| what happened | progress | what follows |"
OWN, PROVIDER = "sms", "twilio_sms"


def page_rows() -> dict[str, str]:
    """What a row is about, and the progress it states."""
    lines = iter(PAGE.read_text().splitlines())
    for line in lines:
        if line == HEADING:
            break
    next(lines)
    rows = {}
    for line in lines:
        if not line.startswith("|"):
            break
        what, progress, _ = (cell.strip() for cell in line.strip("|").split("|"))
        rows[what] = progress
    return rows


def says(status: int, document: object) -> Behaviour:
    return answering(http(status, json.dumps(document).encode()))


def own(**answer: object) -> dict[str, object]:
    return {"referenceId": REFERENCE, **answer}


EXAMPLES: dict[str, list[tuple[str, Behaviour | None]]] = {
    "connection refused, DNS failure, broken handshake, no free connection: no byte was sent": [
        (OWN, None), (PROVIDER, None),
    ],
    "the connection died, timed out or was cut after a byte was sent": [
        (OWN, read_then_close), (PROVIDER, read_then_close),
    ],
    "429, 503, SMTP 4xx or a provider's own rate error": [
        (OWN, says(429, {})), (OWN, says(503, {})), (PROVIDER, says(429, {})),
        (PROVIDER, says(400, {"code": 21611, "message": "queue is full"})),
    ],
    "2xx with the provider's message id": [
        (OWN, says(200, own(status="accepted", gatewayMessageId="m"))),
        (PROVIDER, says(201, {"sid": "SM1"})),
    ],
    "4xx with a known reason": [
        (OWN, says(400, own(status="rejected", reason="invalid_recipient"))),
        (PROVIDER, says(400, {"code": 21211, "message": "no number"})),
    ],
    "401, 403, a code about us, a certificate that is not trusted": [
        (OWN, says(401, {})), (OWN, says(403, {})), (PROVIDER, says(401, {"code": 20003})),
    ],
    "400, 404, 405, 410, 413, 415, 422 with the provider's own error document": [
        (PROVIDER, says(404, {"code": 99_999, "message": "of ours, and new"})),
    ],
    "any other 3xx, 4xx or 5xx, and error pages of other servers (`http_404` …)": [
        (name, says(status, {}))
        for name in (OWN, PROVIDER)
        for status in (302, 404, 408, 409, 500, 501, 502, 504)
    ],
    "an unintelligible 2xx (`invalid_answer`)": [
        (OWN, says(200, own(status="maybe"))), (OWN, says(200, {"referenceId": "another's"})),
        (OWN, answering(http(200, b"<html>"))), (PROVIDER, says(200, {})),
        (PROVIDER, answering(http(200, b"<html>"))),
    ],
    'with `sms` and `push`: `"status": "rejected"` without a reason': [
        ("sms", says(400, own(status="rejected"))), ("push", says(200, own(status="rejected"))),
    ],
}  # fmt: skip


def in_the_pages_words(result: CallResult) -> str:
    """In the page's words, except for codes."""
    match result:
        case Accepted():
            return "accepted"
        case Rejected():
            return "rejected"
        case Throttled():
            return "`Throttled`: nothing was accepted"
        case Held():
            return "`Held`: nothing was accepted"
        case AttemptError(Progress.ANSWERED, code):
            return f"error `{code}`" if code == INVALID_ANSWER else "nothing was accepted"
        case AttemptError(progress):
            return progress.value
        case _:
            raise AssertionError(result)


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.close()


async def called(client: HttpClient, name: str, behave: Behaviour | None) -> CallResult:
    async def at(port: int) -> CallResult:
        url = f"http://127.0.0.1:{port}"
        target = Target(name, url, TARGETS[name], client, PlantedSecrets(), "")
        return await FAMILIES[name].make(target).call(reservation())

    if behave is None:
        return await at(closed_port())
    async with serving(behave) as port:
        return await at(port)


def test_every_row_about_progress_has_an_example() -> None:
    assert page_rows().keys() == EXAMPLES.keys()


@pytest.mark.parametrize("what", EXAMPLES)
async def test_a_call_gets_as_far_as_the_page_says(client: HttpClient, what: str) -> None:
    stated = page_rows()[what]
    for name, behave in EXAMPLES[what]:
        result = await called(client, name, behave)
        assert in_the_pages_words(result) == stated, (name, result)
        if "`invalid_answer`" in what:
            assert isinstance(result, AttemptError)
            assert result.code == INVALID_ANSWER
