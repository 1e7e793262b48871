"""The lane opener: a message goes with its files, and not after its recipient has opted out."""

import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.message_content import Attachment
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.domain.workflows import Delay
from outrider.kernel.transactions import suppressions
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import SteppedClock, working
from tests.support.workflows import Office, email, office

CONTENT = b"%PDF-1.4 a quote"
QUOTE = Attachment(
    "quote.pdf", "application/pdf", artifact="file:run-1/quote.pdf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)  # fmt: skip


@pytest.fixture
async def desk(database: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with office(database, tmp_path, clock=SteppedClock()) as made:
        yield made


def clock_of(desk: Office) -> SteppedClock:
    assert isinstance(desk.clock, SteppedClock)
    return desk.clock


async def waiting_with_its_quote(desk: Office) -> Path:
    """A mail waits that has an artifact attached; where the artifact should be."""
    await desk.rule("lead_welcome", Channel.EMAIL, email())
    await desk.routed("lead_welcome")
    document = {"subject": "S", "body": "B", "attachments": [QUOTE.as_document()]}
    async with raw_sql(desk.database) as raw:
        content = msgspec.json.encode(document).decode()
        await raw.run(f"UPDATE channel_outbox SET payload = '{content}'")
    return Path(desk.outrider.settings.artifacts) / "run-1" / "quote.pdf"


async def test_a_message_whose_file_does_not_exist_fails_without_a_call(desk: Office) -> None:
    await waiting_with_its_quote(desk)
    (row,) = await desk.delivered()
    assert (row.status, row.attempts) == ("failed", 0)
    assert "the attachment 'quote.pdf' has no artifact" in (row.last_error or "")
    assert desk.sandbox.requests == 0


async def test_a_message_waits_until_its_file_can_be_read(desk: Office) -> None:
    file = await waiting_with_its_quote(desk)
    file.parent.mkdir(parents=True)
    os.mknod(file, stat.S_IFSOCK)  # Opening it is an error, as on a disk that does not answer.
    async with working(desk.outrider):
        (row,) = await desk.until(lambda rows: rows[0].waits_for == "enclosures")
        assert (row.status, row.attempts, desk.sandbox.requests) == ("pending", 0, 0)
        file.unlink()
        file.write_bytes(CONTENT)
        clock_of(desk).advance(desk.outrider.foundation.limits.enclosure_wait_seconds)
        (row,) = await desk.until(lambda rows: rows[0].status == "succeeded")
    assert row.attempts == 1


async def test_a_message_that_waits_is_not_sent_after_its_recipient_opts_out(desk: Office) -> None:
    await desk.rule("lead_welcome", Channel.EMAIL, email(1, timing=Delay(60)))
    await desk.routed("lead_welcome")
    asked = OptOut("asked")
    await desk.outrider.store.write(
        suppressions.suppress(DEFAULT_SCOPE, "email", ["ada@example.test"], asked, desk.clock.now())
    )
    async with working(desk.outrider):
        await clock_of(desk).step(61)
        (row,) = await desk.until(lambda rows: rows[0].status == "failed")
    assert (row.last_error, row.waits_for) == ("suppressed", None)
