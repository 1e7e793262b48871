"""STOP and HELP are answered once, through the ledger, where the provider does not do it."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from outrider.documents.policy import parse_policy
from outrider.domain.opt_out_answers import HELP_ANSWERS, STOP_ANSWERS, default_answer
from outrider.domain.opt_out_words import HELP_WORDS, STOP_WORDS, OptOutWord
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.suppressions import OptOut
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.transactions import receipts, suppressions
from outrider.kernel.transactions.paging import LAST
from outrider.ports.store import Store
from outrider.settings import OptOutAnswers
from tests.support.dying_matcher import SURVIVED, answering_matcher
from tests.support.eventually import eventually
from tests.support.forked import ForkedProcess
from tests.support.raw_sql import raw_sql
from tests.support.receipt_scene import Scene
from tests.support.shared_targets import ACME, ANN, BETA, TARGET, Shared, sharing
from tests.support.whole_runs import working

MOST = 100
CONFIRMED = "Shop: You will get no more messages from us. Reply START to get them again."
HELPED = "Shop news. Call 0800 1234, or reply STOP."
BOTH = {"stop": True, "help": HELPED, "sender": "Shop"}


async def answers(shared: Shared, workspace: WorkspaceName = ACME) -> list[tuple[str, str, str]]:
    """Whom the workspace has answered, with what, and what became of it; the oldest first."""
    scope = shared.scopes[workspace]
    lines, _ = await shared.outrider.submissions.page(scope, LAST, MOST)
    found = []
    for line in reversed(lines):
        if "-answer-" in line.intent_id:
            intent, _ = await shared.outrider.submissions.intent(scope, line.intent_id)
            payload: dict[str, Any] = msgspec.json.decode(intent.payload)
            found.append((payload["to"], payload["message"], intent.status))
    return found


async def until_answered(shared: Shared, count: int, workspace: WorkspaceName = ACME) -> None:
    async def is_answered() -> bool:
        found = await answers(shared, workspace)
        return len(found) >= count and all(status != "PENDING" for *_, status in found)

    await eventually(is_answered)


@pytest.fixture
async def shared(database: str, tmp_path: Path) -> AsyncIterator[Shared]:
    async with sharing(database, tmp_path, answers=BOTH) as scene:
        yield scene


async def test_a_stop_is_confirmed_once_although_it_forbids_any_message(shared: Shared) -> None:
    await shared.sent(ACME, "one")
    await shared.replied("Stop!")
    await until_answered(shared, 1)
    await shared.replied("STOP")
    assert await answers(shared) == [(ANN, CONFIRMED, "ACCEPTED")]
    assert await shared.suppressed() == {"acme": [ANN]}
    # It is the answer alone that goes out.
    assert (await shared.submitted(ACME, "two")).status == "REJECTED"
    # Whoever starts again may stop again.
    await shared.replied("START")
    await shared.replied("STOP")
    await until_answered(shared, 2)
    assert await answers(shared) == [(ANN, CONFIRMED, "ACCEPTED")] * 2


async def test_an_answer_waits_for_no_quiet_hours_and_no_cap(shared: Shared) -> None:
    """The confirmation of a STOP at night would otherwise arrive in the morning."""
    await shared.sent(ACME, "one")
    night = {
        "quietHours": {"from": "00:00", "to": "23:59"},
        "frequencyCap": {"messages": 1, "perHours": 24, "whenReached": "skip"},
    }
    policies = parse_policy(msgspec.json.encode(night))
    await shared.outrider.policy_keeper.put(shared.scopes[ACME], policies, "test")
    await shared.replied("STOP")
    await until_answered(shared, 1)
    assert await answers(shared) == [(ANN, CONFIRMED, "ACCEPTED")]


async def test_help_is_answered_once_a_day_also_to_somebody_who_has_stopped(
    shared: Shared,
) -> None:
    await shared.sent(ACME, "one")
    await shared.replied("STOP")
    await shared.replied("help")
    await shared.replied("HELP")
    await until_answered(shared, 2)
    assert [text for _, text, _ in await answers(shared)] == [CONFIRMED, HELPED]


async def test_many_stops_at_once_and_repeated_are_confirmed_once(
    database: str, tmp_path: Path
) -> None:
    """Repeats, several matchers at once, and a second server on the same database."""
    async with (
        sharing(database, tmp_path, answers=BOTH, work=False) as one,
        sharing(database, tmp_path, answers=BOTH, work=False) as other,
    ):
        async with working(one.outrider):
            await one.sent(ACME, "one")
        stops = [
            Receipt(f"s-{n}", ReceiptEvent.REPLIED, sender=ANN, text="STOP") for n in range(20)
        ]
        intakes = [each.outrider.receipt_intake for each in (one, other)]
        await asyncio.gather(
            *(
                intake.take(DEFAULT_WORKSPACE_NAME, TARGET, [stop])
                for intake in intakes
                for stop in stops
            )
        )
        matchers = [each.outrider.receipt_matcher for each in (one, other)] * 3
        while sum(
            each.claimed for each in await asyncio.gather(*(each.match_due() for each in matchers))
        ):
            pass
        assert len(await answers(one)) == 1


async def test_a_stop_that_was_taken_back_before_it_came_is_not_confirmed(shared: Shared) -> None:
    await shared.sent(ACME, "one")
    now = shared.outrider.clock.now()
    await shared.replied("START", occurred_at=now)
    await shared.replied("STOP", occurred_at=now.replace(year=now.year - 1))
    assert await answers(shared) == []


async def test_of_workspaces_that_share_a_number_the_one_that_wrote_last_answers(
    shared: Shared,
) -> None:
    await shared.sent(ACME, "one")
    await shared.sent(BETA, "two")
    await shared.replied("STOP")
    await until_answered(shared, 1, BETA)
    assert await shared.suppressed() == {"acme": [ANN], "beta": [ANN]}
    assert (await answers(shared, BETA), await answers(shared, ACME)) == (
        [(ANN, CONFIRMED, "ACCEPTED")],
        [],
    )


async def test_an_address_that_bounced_or_an_operator_forbids_is_not_answered(
    shared: Shared,
) -> None:
    await shared.sent(ACME, "one")
    forbidden = OptOut("by the operator", include_transactional=True)
    now = shared.outrider.clock.now()
    await shared.outrider.store.write(
        suppressions.suppress(shared.scopes[ACME], "sms", [ANN], forbidden, now)
    )
    await shared.replied("HELP")
    await until_answered(shared, 1)
    assert [status for *_, status in await answers(shared)] == ["REJECTED"]


async def test_an_opt_out_reported_by_a_provider_is_not_answered(shared: Shared) -> None:
    await shared.sent(ACME, "one")
    await shared.reported(ReceiptEvent.OPTED_OUT, sender=ANN)
    assert await shared.suppressed() == {"acme": [ANN]}
    assert await answers(shared) == []


async def test_stop_and_help_are_answered_once_without_any_setting(
    database: str, tmp_path: Path
) -> None:
    async with sharing(database, tmp_path) as shared:
        await shared.sent(ACME, "one")
        for text in ("HELP", "help", "STOP", "stop"):
            await shared.replied(text)
        await until_answered(shared, 2)
        assert await shared.suppressed() == {"acme": [ANN]}
        assert [(text, status) for _, text, status in await answers(shared)] == [
            (HELP_ANSWERS["en"], "ACCEPTED"),
            (STOP_ANSWERS["en"], "ACCEPTED"),
        ]


@pytest.mark.parametrize("given", [{"stop": False, "help": False}, {"provider_answers": True}])
async def test_nobody_is_answered_where_the_target_says_so(
    database: str, tmp_path: Path, given: dict[str, object]
) -> None:
    async with sharing(database, tmp_path, answers=given) as shared:
        await shared.sent(ACME, "one")
        await shared.replied("HELP")
        await shared.replied("STOP")
        assert await shared.suppressed() == {"acme": [ANN]}
        assert await answers(shared) == []


def test_there_is_an_answer_in_every_language_that_has_a_word() -> None:
    assert STOP_ANSWERS.keys() == STOP_WORDS.keys()
    assert HELP_ANSWERS.keys() == STOP_ANSWERS.keys()
    assert HELP_WORDS.keys() <= HELP_ANSWERS.keys()
    assert all("START" in text for text in STOP_ANSWERS.values())
    assert all("STOP" in text for text in HELP_ANSWERS.values())


def test_a_word_is_answered_in_its_own_language_and_else_in_the_targets() -> None:
    assert default_answer(OptOutWord.STOP, "Abmelden!", "en") == STOP_ANSWERS["de"]
    assert default_answer(OptOutWord.STOP, "STOP", "fr") == STOP_ANSWERS["fr"]
    # Portuguese and Spanish.
    assert default_answer(OptOutWord.STOP, "parar", "pt") == STOP_ANSWERS["pt"]
    assert default_answer(OptOutWord.HELP, "Hilfe", "en") == HELP_ANSWERS["de"]


def test_settings_name_a_language_that_there_is_and_texts_that_are_some() -> None:
    for wrong in ({"language": "tlh"}, {"stop": ""}, {"help": 1}, {"halt": True}):
        with pytest.raises(ValidationError):
            OptOutAnswers.model_validate(wrong)
    assert OptOutAnswers(stop=False).text(OptOutWord.STOP, "STOP") is None
    assert OptOutAnswers(stop="Bye").text(OptOutWord.STOP, "STOP") == "Bye"


def test_providers_that_document_that_they_answer_are_left_to_do_so() -> None:
    answering = {name for name, each in GATEWAY_TYPES.items() if each.answers_opt_outs}
    assert answering == {"twilio_sms", "telnyx", "plivo"}
    assert OptOutAnswers().text(OptOutWord.STOP, "STOP", family_answers=True) is None
    ours = OptOutAnswers(provider_answers=False)
    assert ours.text(OptOutWord.STOP, "STOP", family_answers=True) == STOP_ANSWERS["en"]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.storm)])
async def test_a_kill_before_any_statement_of_an_answer_leaves_it_written_once(
    store: Store, database: str, tmp_path: Path, step: int
) -> None:
    """Each round has its own people, and a matcher that dies some statements later than the last;
    in a storm, one statement later."""
    scene = Scene(store, datetime.now(UTC))
    matcher = answering_matcher(scene.foundation)
    expected: dict[str, int] = {}
    survived = False
    for nth in itertools.count(step, step):
        stopper, asker = f"+4477009{nth:05d}", f"+4477008{nth:05d}"
        await scene.take(ReceiptEvent.REPLIED, sender=stopper, text="STOP")
        await scene.take(ReceiptEvent.REPLIED, sender=asker, text="HELP")
        arguments = [database, str(nth)]
        child = await ForkedProcess.start(
            "tests.support.dying_matcher", arguments, os.environ, tmp_path
        )
        said, _ = await child.communicate()
        assert child.returncode == -signal.SIGKILL
        survived = SURVIVED.encode() in said

        async def is_matched() -> bool:
            # Postgres holds a dead client's rows until it has noticed, and others skip them.
            await matcher.match_due()
            return await store.read(receipts.next_due()) is None

        await eventually(is_matched)
        expected |= {stopper: 1, asker: 1}
        assert await _answered(database) == expected
        if survived:
            break
    assert nth > 8


async def _answered(database: str) -> dict[str, int]:
    async with raw_sql(database) as raw:
        rows = await raw.run(
            "SELECT recipient_address, count(*) FROM channel_outbox"
            " WHERE answers_receipt IS NOT NULL GROUP BY recipient_address"
        )
    return dict(rows)
