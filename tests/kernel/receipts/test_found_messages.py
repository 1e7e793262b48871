"""Whose a message is that was found by its content: one item's, and nobody's while that is open."""

import asyncio
from pathlib import Path

from aiohttp import web

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.gateways.sandbox_protocol import Provider
from outrider.kernel.receipts.found_messages import RIVAL_CALLED, RIVAL_DOUBTED
from outrider.kernel.submissions.submission_manager import Submission
from outrider.testing.launches import target
from tests.support.doubt_scene import doubted, ended, scene, until
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import working

WITHOUT_RECEIPTS = {"apiKeySid": "SK123"}
"""Twilio signs its reports with the account's token, which such a target does not have."""


class HeldSandbox(Sandbox):
    """Answers no call, though it has taken it, until it is let go."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.go = asyncio.Event()
        self.go.set()

    async def _send(self, provider: Provider, request: web.BaseRequest) -> web.StreamResponse:
        response = await super()._send(provider, request)
        await self.go.wait()
        return response


async def submit_the_same(outrider: Outrider, number: int) -> None:
    given = Submission(f"i-{number}", "t", {"to": "+447700900123", "body": "The same"})
    await outrider.submissions.submit(DEFAULT_SCOPE, given)


async def details(database: str) -> list[object]:
    async with raw_sql(database) as raw:
        return [row[0] for row in await raw.run("SELECT detail FROM doubt_checks")]


async def test_each_message_of_the_same_text_settles_one_doubt(
    database: str, tmp_path: Path
) -> None:
    """Found twice or sent twice, whichever settlers look."""
    async with (
        Sandbox(Faults(drop_rate=0.5, lose_rate=0.4, seed=3)) as sandbox,
        scene(
            database, tmp_path, sandbox, "twilio_sms", options=WITHOUT_RECEIPTS, maxAttempts=50
        ) as outrider,
    ):
        for number in range(8):
            await submit_the_same(outrider, number)
        async with working(outrider), working(outrider):
            found = await ended(outrider, 8)
    assert {each.status for each in found} == {"ACCEPTED"}
    assert sandbox.deliveries.total() == 8


async def test_the_message_of_a_call_in_progress_is_not_mistaken_for_a_lost_one(
    database: str, tmp_path: Path
) -> None:
    async with (
        HeldSandbox(Faults(lose_rate=1, look_up_fail_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "twilio_sms", maxAttempts=9) as outrider,
        working(outrider),
    ):
        await submit_the_same(outrider, 0)
        await doubted(outrider, 0)
        sandbox.go.clear()
        sandbox.change_faults({"loseRate": 0})
        await submit_the_same(outrider, 1)
        await until(lambda: len(sandbox.kept) == 1)
        sandbox.change_faults({"lookUpFailRate": 0})
        asked = sandbox.look_ups
        await until(lambda: sandbox.look_ups >= asked + 3)
        said = await details(database)
        sandbox.go.set()
        found = await ended(outrider, 2)
    assert said == [RIVAL_CALLED]
    assert {each.status for each in found} == {"ACCEPTED"}
    assert sandbox.deliveries.total() == 2


async def test_a_message_that_a_receipt_may_still_claim_is_not_assigned_yet(
    database: str, tmp_path: Path
) -> None:
    """Two of the same text are in doubt and one arrived: its receipt says whose it is."""
    async with (
        Sandbox(Faults(lose_rate=1, look_up_fail_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "twilio_sms", maxAttempts=9) as outrider,
        working(outrider),
    ):
        await submit_the_same(outrider, 0)
        await doubted(outrider, 0)
        sandbox.change_faults({"loseRate": 0, "dropRate": 1})
        await submit_the_same(outrider, 1)
        await doubted(outrider, 1)
        sandbox.change_faults({"lookUpFailRate": 0})
        asked = sandbox.look_ups
        await until(lambda: sandbox.look_ups >= asked + 8)
        said = await details(database)
    assert said == [RIVAL_DOUBTED, RIVAL_DOUBTED]
    assert sandbox.deliveries.total() == 1


async def test_a_message_whose_id_another_provider_has_given_too_is_found(
    database: str, tmp_path: Path
) -> None:
    """It was taken for the other provider's message, so this one was sent again."""
    async with (
        Sandbox(Faults(drop_rate=1, look_up_fail_rate=1)) as sandbox,
        scene(
            database, tmp_path, sandbox, "twilio_sms", options=WITHOUT_RECEIPTS, maxAttempts=9,
            others=[target("elsewhere", "noop", "noop:")],
        ) as outrider,
        working(outrider),
    ):  # fmt: skip
        await submit_the_same(outrider, 0)
        await doubted(outrider, 0)
        elsewhere = Submission("i-1", "elsewhere", {"to": "+447700900123", "body": "The same"})
        await outrider.submissions.submit(DEFAULT_SCOPE, elsewhere)
        async with raw_sql(database) as raw:
            sent = "SELECT id FROM channel_outbox WHERE provider = 'noop' AND status = 'sent'"
            await eventually(lambda: raw.run(sent))
            message_id = sandbox.kept[0].message_id
            await raw.run(
                f"INSERT INTO provider_messages SELECT '{message_id}', id FROM ({sent}) AS i"
            )
        sandbox.change_faults({"lookUpFailRate": 0, "dropRate": 0})
        found = await ended(outrider, 1)
    assert [each.status for each in found] == ["ACCEPTED"]
    assert sandbox.deliveries.total() == 1
