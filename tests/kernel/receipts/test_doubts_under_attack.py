"""What could make a settler send twice, lose a message, or never end: each was possible once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from aiohttp import web

from outrider.bootstrap import Outrider
from outrider.domain.evidence import EvidenceKind, LookedUp
from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey
from outrider.domain.suppressions import OptOut
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.directory import Gateways
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.receipts.found_messages import RIVAL_SETTLED
from outrider.kernel.receipts.look_up_asker import CHANGED_SINCE, TOO_EARLY
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.submissions import Intent
from outrider.ports.gateway import Gateway, LookUpQuestion
from outrider.secrets.store import LocalSecrets
from outrider.settings import TargetSettings
from outrider.testing.launches import target
from tests.support.doubt_scene import (
    EAGER,
    PATIENCE_SECONDS,
    checks,
    doubted,
    ended,
    left_to_people,
    payload,
    scene,
    submit,
    until,
    verdicts,
)
from tests.support.look_up_witness import LookUpWitness, Reply
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, working

PHONE = "+447700900123"
WITHOUT_RECEIPTS = {"apiKeySid": "SK123"}
BY_KEY_ONLY = {"remembers_references": "for_good", "look_up_url": None}


async def opt_out(outrider: Outrider, channel: str, address: str) -> None:
    given = OptOut("asked to", include_transactional=True)
    await outrider.suppression_keeper.add(DEFAULT_SCOPE, channel, [address], given, "test")


async def accepted(outrider: Outrider, number: int) -> Intent:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, f"i-{number}")
            if intent.status == "ACCEPTED":
                return intent
            await asyncio.sleep(0.02)


async def resolve(outrider: Outrider, number: int, verdict: DoubtVerdict) -> None:
    intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, f"i-{number}")
    await outrider.doubt_resolver.resolve(
        DEFAULT_SCOPE, intent.outbox_id, verdict, "somebody says so", "test", force=True
    )


async def test_who_opted_out_is_left_to_a_person_and_not_repeated_to_for_ever(
    database: str, tmp_path: Path
) -> None:
    """A repeat is refused by the opt-out, and the doubt about it must not ask for a repeat."""
    async with (
        Sandbox(Faults(drop_rate=1)) as sandbox,
        scene(
            database, tmp_path, sandbox, "sms", settings=BY_KEY_ONLY, maxAttempts=10_000
        ) as outrider,
    ):
        await submit(outrider, "sms", 1)
        async with working(outrider):
            await until(lambda: sandbox.requests > 1)
            await opt_out(outrider, "sms", PHONE)
            await left_to_people(database)
            called, given = sandbox.requests, await verdicts(outrider)
            async with raw_sql(database) as raw:
                await raw.run("UPDATE doubt_checks SET next_check_at = doubted_at")
            await left_to_people(database)
        assert (sandbox.requests, await verdicts(outrider)) == (called, given)
    assert sandbox.deliveries.total() == 1


async def test_who_opted_out_is_skipped_once_the_first_call_is_known_not_to_have_arrived(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox(Faults(lose_rate=1, look_up_fail_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "smtp", maxAttempts=5) as outrider,
    ):
        await submit(outrider, "smtp", 1)
        async with working(outrider):
            await doubted(outrider, 0)
            await opt_out(outrider, "email", "ada@example.test")
            sandbox.change_faults({"lookUpFailRate": 0, "loseRate": 0})
            [intent] = await ended(outrider, 1)
    assert intent.item_status == "skipped"
    assert not sandbox.deliveries


async def test_absence_from_other_records_than_those_of_the_call_proves_nothing(
    database: str, tmp_path: Path
) -> None:
    """The target was pointed at another provider's records between the call and the question."""
    async with Sandbox(Faults(drop_rate=1, look_up_fail_rate=1)) as first:
        async with scene(database, tmp_path, first, "smtp", maxAttempts=9) as outrider:
            await submit(outrider, "smtp", 1)
            async with working(outrider):
                await doubted(outrider, 0)
        async with (
            Sandbox() as other,
            scene(
                database, tmp_path, first, "smtp", maxAttempts=9,
                settings={"look_up_url": other.look_up_url},
            ) as outrider,
            working(outrider),
        ):  # fmt: skip
            assert await left_to_people(database) == [CHANGED_SINCE]
        assert first.requests == 1


async def test_a_message_that_somebody_settled_is_not_found_for_another_item(
    database: str, tmp_path: Path
) -> None:
    """Two of one text are in doubt and one arrived, which a person says without its id."""
    async with (
        Sandbox(Faults(drop_rate=1, look_up_fail_rate=1)) as sandbox,
        scene(
            database, tmp_path, sandbox, "twilio_sms", options=WITHOUT_RECEIPTS, maxAttempts=9
        ) as outrider,
        working(outrider),
    ):
        for number, lost in enumerate((0, 1)):
            sandbox.change_faults({"dropRate": 1 - lost, "loseRate": lost})
            given = Submission(f"i-{number}", "t", {"to": PHONE, "body": "The same"})
            await outrider.submissions.submit(DEFAULT_SCOPE, given)
            await doubted(outrider, number)
        await resolve(outrider, 0, DoubtVerdict.SENT)
        sandbox.change_faults({"lookUpFailRate": 0})
        assert await left_to_people(database) == [RIVAL_SETTLED]
        assert (await verdicts(outrider))[EvidenceKind.CONTENT.value, "sent"] == 0


class _Raising:
    """A gateway with a bug."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def __getattr__(self, name: str) -> object:
        return getattr(self._gateway, name)

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        raise RuntimeError(f"a bug with {len(questions)} questions")


class _OneRaises(Gateways):
    def gateway(
        self, submission_target: str, gateway_type: str, gateway_url: str,
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,
    ) -> Gateway:  # fmt: skip
        found = super().gateway(submission_target, gateway_type, gateway_url, workspace)
        return cast("Gateway", _Raising(found)) if submission_target == "bad" else found


async def test_a_bug_in_one_targets_look_up_does_not_keep_others_from_settling(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        settings = TargetSettings(look_up_url=sandbox.look_up_url, look_up_delay_seconds=0.5)
        targets = {"bad": settings, "t": settings}
        mail = [target(name, "smtp", sandbox.smtp_url, policy="one_shot") for name in targets]
        async with opened(database, tmp_path, *mail, limits=EAGER, targets=targets) as outrider:
            outrider.gateways = _OneRaises(LocalSecrets(), targets=targets)
            for number, name in enumerate(targets):
                given = Submission(f"i-{number}", name, payload("smtp", number))
                await outrider.submissions.submit(DEFAULT_SCOPE, given)
            async with working(outrider):
                assert await left_to_people(database) == ["RuntimeError"]
                good = await accepted(outrider, 1)
            await outrider.gateways.close()
    assert good.item_status == "sent"


class _HeldLookUps(Sandbox):
    """Says what it received, once it is let go."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def _answer_look_up(
        self, shown: object, request: web.BaseRequest, *, is_open: bool = False
    ) -> web.StreamResponse:
        response = await super()._answer_look_up(shown, request, is_open=is_open)
        self.asked.set()
        await self.go.wait()
        return response


async def test_a_provider_slower_than_a_lease_is_asked_by_one_settler(
    database: str, tmp_path: Path
) -> None:
    """Taking over from each other, two of them would ask for ever and never write."""
    limits = replace(EAGER, doubt_lease_seconds=0.6)
    async with (
        _HeldLookUps(Faults(drop_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "smtp", limits=limits, maxAttempts=9) as outrider,
        working(outrider),
        working(outrider),
    ):
        await submit(outrider, "smtp", 1)
        await until(sandbox.asked.is_set)
        # Not a wait for anything: several leases go by.
        await asyncio.sleep(4 * limits.doubt_lease_seconds)
        asked = sandbox.look_ups
        sandbox.go.set()
        await ended(outrider, 1)
    assert asked == 1
    assert sandbox.deliveries.total() == 1


@pytest.mark.parametrize("verdict", [DoubtVerdict.SENT, DoubtVerdict.FAILED])
async def test_what_a_person_settles_while_the_provider_is_asked_stays_settled(
    database: str, tmp_path: Path, verdict: DoubtVerdict
) -> None:
    async with (
        _HeldLookUps(Faults(lose_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "smtp", maxAttempts=9, delay_seconds=0) as outrider,
        working(outrider),
    ):
        await submit(outrider, "smtp", 1)
        await until(sandbox.asked.is_set)
        await resolve(outrider, 0, verdict)
        sandbox.go.set()
        await until(lambda: sandbox.look_ups == 1)
        [intent] = await ended(outrider, 1)
        given = await verdicts(outrider)
    assert intent.item_status == verdict.value
    assert given == {("person", verdict.value): 1}
    assert sandbox.requests == 1


async def test_absence_is_no_proof_while_the_clock_has_just_leapt(
    database: str, tmp_path: Path
) -> None:
    """Two hours forward, and every doubt would seem to be two hours old."""
    steady = [0.0]
    async with (
        Sandbox(Faults(lose_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "smtp", maxAttempts=9) as outrider,
    ):
        outrider.clock_steady_seconds = lambda: steady[0]  # type: ignore[method-assign]
        await submit(outrider, "smtp", 1)
        async with working(outrider):
            await until(lambda: sandbox.look_ups >= 6)
            [(_, said)] = await checks(database)
            assert (said, sandbox.requests) == (TOO_EARLY, 1)
            sandbox.change_faults({"loseRate": 0})
            steady[0] = 3_600.0
            await ended(outrider, 1)
    assert sandbox.deliveries.total() == 1


async def test_absence_is_no_proof_if_the_clock_may_have_leapt_before_this_worker_began(
    database: str, tmp_path: Path
) -> None:
    """As `make simulate` found: the doubt seemed older than it was."""
    unseen = [3_600.0]
    async with (
        Sandbox(Faults(lose_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "smtp", maxAttempts=9) as outrider,
    ):
        outrider.clock_unseen_seconds = lambda _: unseen[0]  # type: ignore[method-assign]
        await submit(outrider, "smtp", 1)
        async with working(outrider):
            await until(lambda: sandbox.look_ups >= 6)
            [(_, said)] = await checks(database)
            assert (said, sandbox.requests) == (TOO_EARLY, 1)
            sandbox.change_faults({"loseRate": 0})
            unseen[0] = 0.0
            await ended(outrider, 1)
    assert sandbox.deliveries.total() == 1


async def test_a_target_whose_set_up_is_gone_leaves_its_doubts_to_people_until_it_is_back(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1, look_up_fail_rate=1)) as sandbox:
        async with scene(database, tmp_path, sandbox, "twilio_sms") as outrider:
            await submit(outrider, "twilio_sms", 1)
            async with working(outrider):
                await doubted(outrider, 0)
        # Neither in the registry nor in the settings any more.
        async with opened(database, tmp_path, limits=EAGER) as outrider, working(outrider):
            [said] = await left_to_people(database)
            assert "authToken" in str(said)
        sandbox.change_faults({"lookUpFailRate": 0})
        async with scene(database, tmp_path, sandbox, "twilio_sms") as outrider, working(outrider):
            [intent] = await ended(outrider, 1)
    assert intent.item_status == "sent"
    assert sandbox.requests == 1


async def test_a_provider_that_names_a_time_is_not_asked_before_it(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox, LookUpWitness() as witness:
        witness.always = Reply(429, b"{}", headers={"Retry-After": "3600"})
        here = {"look_up_url": f"{witness.url}/look-up"}
        async with (
            scene(database, tmp_path, sandbox, "smtp", settings=here) as outrider,
            working(outrider),
        ):
            await submit(outrider, "smtp", 1)
            await until(lambda: bool(witness.asked))
            # Not a wait for anything: several looks would be due.
            await asyncio.sleep(6 * EAGER.doubt_cap_seconds)
    assert len(witness.asked) == 1
