"""An intent that its contract has ended is sent after all only as another one, linked to it."""

from pathlib import Path

import pytest

from outrider.domain.errors import Conflict
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.intent_resubmitter import next_id
from outrider.kernel.transactions import ledger_items
from tests.support.doubt_scene import doubted, ended, scene, submit
from tests.support.whole_runs import working

BY_PERSON = {"look_up_url": None}


async def test_an_exhausted_intent_is_resubmitted_once_as_a_linked_one(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox(Faults(fail_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "sms", policy="one_shot") as outrider,
        working(outrider),
    ):
        await submit(outrider, "sms", 1)
        [first] = await ended(outrider, 1)
        assert first.status in ("EXHAUSTED", "REJECTED")
        sandbox.change_faults({"failRate": 0})
        resubmitter = outrider.intent_resubmitter
        new, is_new = await resubmitter.resubmit(DEFAULT_SCOPE, "i-0", "test")
        again, is_new_again = await resubmitter.resubmit(DEFAULT_SCOPE, "i-0", "test")
        assert (is_new, is_new_again) == (True, False)
        assert new.intent_id == again.intent_id == "i-0~2"
        assert (new.payload, new.key != first.key) == (first.payload, True)
        assert await resubmitter.links(first) == (None, "i-0~2")
        assert await resubmitter.links(new) == ("i-0", None)
        for intent, words in (
            (first, "resubmitted as the intent i-0~2"),
            (new, "resubmits the intent i-0,"),
        ):
            whole = await outrider.store.read(ledger_items.whole(DEFAULT_SCOPE, intent.outbox_id))
            explained = await outrider.item_explainer.explain(DEFAULT_SCOPE, whole)
            assert words in " ".join(explained.sentences)
        before, _ = await outrider.submissions.intent(DEFAULT_SCOPE, "i-0")
        assert (before.status, before.attempts) == (first.status, first.attempts)


async def test_what_may_have_been_sent_is_not_resubmitted(database: str, tmp_path: Path) -> None:
    async with (
        Sandbox(Faults(drop_rate=1)) as sandbox,
        scene(
            database, tmp_path, sandbox, "smtp", settings=BY_PERSON, policy="one_shot"
        ) as outrider,
        working(outrider),
    ):
        await submit(outrider, "smtp", 1)
        await doubted(outrider, 0)
        with pytest.raises(Conflict, match="in doubt"):
            await outrider.intent_resubmitter.resubmit(DEFAULT_SCOPE, "i-0", "test")
        assert sandbox.requests == 1


def test_each_resubmission_has_the_next_number() -> None:
    assert [next_id("order-1"), next_id("order-1~2"), next_id("a~b")] == [
        "order-1~2", "order-1~3", "a~b~2",
    ]  # fmt: skip
