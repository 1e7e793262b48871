"""While a target is down, what was never attempted goes to its fallback, if the target says so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items, targets
from outrider.settings import TargetSettings
from outrider.testing.launches import launch, message, observe, people, target
from tests.support.eventually import eventually, observed_for
from tests.support.whole_runs import items_of, opened, working

SMS = message(Channel.SMS, "sms.main")
NOWHERE = "http://127.0.0.1:9"
"""Nobody listens there."""


def settings(*, when_down: bool) -> dict[str, TargetSettings]:
    main = TargetSettings(
        fallback="sms.backup", fallback_when_down=when_down, breaker_failures=3,
        breaker_seconds=600, remembers_references="for_good", concurrency=4,
    )  # fmt: skip
    return {"sms.main": main, "sms.backup": TargetSettings(remembers_references="for_good")}


@pytest.fixture
async def backup() -> AsyncIterator[Sandbox]:
    async with Sandbox(Faults(seed=7)) as sandbox:
        yield sandbox


async def is_finished(outrider: Outrider, run_id: RunId) -> bool:
    _, accounting = await observe(outrider, run_id)
    assert accounting.holds, accounting
    return accounting.sent == accounting.intended


async def test_a_campaign_goes_to_the_fallback_while_its_target_is_down(
    database: str, tmp_path: Path, backup: Sandbox
) -> None:
    registry = target("sms.main", "sms", NOWHERE), target("sms.backup", "sms", backup.http_url)
    async with opened(database, tmp_path, *registry, targets=settings(when_down=True)) as outrider:
        run_id = await launch(outrider, [SMS], people(60), batch_size=20)
        async with working(outrider):
            await eventually(lambda: is_finished(outrider, run_id))
        assert backup.deliveries.total() == len(backup.deliveries) == 60
        items = list((await items_of(outrider, run_id)).values())
        whole = await outrider.store.read(ledger_items.whole(DEFAULT_SCOPE, items[-1].id))
        assert whole.item.called_target == "sms.backup"
        explained = await outrider.item_explainer.explain(DEFAULT_SCOPE, whole)
        assert (
            "The last attempt went to sms.backup, the fallback of sms.main: no earlier one can have"
            " been accepted." in explained.sentences
        )
        certificate = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
        assert certificate.holds
        assert certificate.as_document()["fallbacks"] == [
            {"submissionTarget": "sms.main", "fallback": "sms.backup", "items": 60}
        ]


async def test_single_messages_go_to_the_fallback_while_their_target_is_down(
    database: str, tmp_path: Path, backup: Sandbox
) -> None:
    registry = target("sms.main", "sms", NOWHERE), target("sms.backup", "sms", backup.http_url)
    async with opened(database, tmp_path, *registry, targets=settings(when_down=True)) as outrider:
        made = [
            Submission(f"intent-{each}", "sms.main", {"to": f"+44770090{each:04}", "message": "Hi"})
            for each in range(20)
        ]
        await outrider.submissions.submit_all(DEFAULT_SCOPE, made)
        async with working(outrider):
            await eventually(lambda: len(backup.deliveries) == 20)
        assert backup.deliveries.total() == 20


async def test_a_target_that_did_not_say_so_keeps_its_items(
    database: str, tmp_path: Path, backup: Sandbox
) -> None:
    """A closed door alone redirects nothing."""
    registry = target("sms.main", "sms", NOWHERE), target("sms.backup", "sms", backup.http_url)
    async with opened(database, tmp_path, *registry, targets=settings(when_down=False)) as outrider:
        run_id = await launch(outrider, [SMS], people(60), batch_size=20)
        async with working(outrider):

            async def is_down() -> bool:
                overview = await outrider.store.read(targets.overview(10))
                return any(not door.is_open for door in overview.doors.values())

            await eventually(is_down)
            await observed_for(0.5)
        _, accounting = await observe(outrider, run_id)
        assert accounting.waiting >= 40


async def test_items_return_to_the_target_once_a_probe_was_answered(
    database: str, tmp_path: Path, backup: Sandbox
) -> None:
    async with Sandbox(Faults(seed=7)) as main:
        url = main.http_url
        await main.stop()
        registry = target("sms.main", "sms", url), target("sms.backup", "sms", backup.http_url)
        quick = settings(when_down=True)
        quick["sms.main"] = quick["sms.main"].model_copy(update={"breaker_seconds": 1.0})
        async with opened(database, tmp_path, *registry, targets=quick) as outrider:
            await launch(outrider, [SMS], people(30))
            async with working(outrider):
                await eventually(lambda: backup.deliveries.total() >= 20)
                await main.start()
                await observed_for(1.0)
                run_id = await launch(outrider, [SMS], people(10))
                await eventually(lambda: is_finished(outrider, run_id))
            assert main.deliveries.total() >= 10
