"""Many intents at once: one commit, an answer for each, and lists of what there is."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import IdempotencyConflict, InvalidInput, OutriderError
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.purposes import Purpose
from outrider.domain.states import IntentStatus
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import intent_lists, submissions
from outrider.kernel.transactions.paging import LAST
from outrider.kernel.transactions.submissions import Intent
from outrider.ports.store import Statement
from outrider.testing.launches import target
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened

TEXT = {"to": "+447700900123", "message": "Hi"}
ENTRIES = [target(name, "sms", "http://127.0.0.1:9") for name in ("sms", "other")]


def given(name: str, submit_to: str = "sms", **payload: Any) -> Submission:
    return Submission(name, submit_to, payload or TEXT)


def words(answers: list[tuple[Intent, bool] | OutriderError]) -> list[str]:
    return [
        answer.code if isinstance(answer, OutriderError) else "new" if answer[1] else "known"
        for answer in answers
    ]


async def test_one_bad_intent_never_spoils_the_others(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path, *ENTRIES) as outrider:
        manager = outrider.submissions
        await manager.submit(DEFAULT_SCOPE, given("known"))
        batch = [
            given("a"),
            given("known"),
            given("known", message="another"),
            given("a"),
            given("a", message="another"),
            given(""),
            given("with|pipe"),
            given("nowhere", "no.such.target"),
            given("reference", referenceId="mine", **TEXT),
            Submission("topic", "sms", TEXT, purpose=Purpose("No Topic!")),
            Submission("hook", "sms", TEXT, callback_url="ftp://example.test"),
            given("b"),
        ]
        answers = await manager.submit_each(DEFAULT_SCOPE, batch)
        refused, conflict = InvalidInput.code, IdempotencyConflict.code
        assert words(answers) == [
            "new", "known", conflict, "known", conflict, refused, refused, refused, refused,
            refused, refused, "new",
        ]  # fmt: skip
        paths = [each.problems[0].path for each in answers if isinstance(each, InvalidInput)]
        assert paths == [
            "intentId", "intentId", "submissionTarget", "payload.referenceId", "topic",
            "callbackUrl",
        ]  # fmt: skip
        async with raw_sql(database) as raw:
            assert await raw.value("SELECT count(*) FROM channel_outbox") == 3


async def test_a_single_refused_intent_is_refused_with_its_own_paths(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, *ENTRIES) as outrider:
        (answer,) = await outrider.submissions.submit_each(DEFAULT_SCOPE, [given("a", "nowhere")])
        assert isinstance(answer, InvalidInput)
        assert [each.path for each in answer.problems] == ["submissionTarget"]


async def test_an_intent_for_a_removed_target_is_still_known(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path, *ENTRIES) as outrider:
        await outrider.submissions.submit(DEFAULT_SCOPE, given("old", "other"))
    async with opened(database, tmp_path, ENTRIES[0]) as outrider:
        batch = [given("old", "other"), given("new", "other"), given("a")]
        answers = await outrider.submissions.submit_each(DEFAULT_SCOPE, batch)
        assert words(answers) == ["known", InvalidInput.code, "new"]


async def test_a_thousand_are_one_commit_of_a_few_statements(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(database, tmp_path, *ENTRIES) as outrider:
        asked: list[str] = []
        commits = 0
        store, submit = outrider.store, submissions.submit

        def watched(*arguments: Any) -> Any:
            nonlocal commits
            commits += 1
            script, rows = submit(*arguments), None
            try:
                while True:
                    statement: Statement = script.send(rows)  # type: ignore[arg-type]
                    asked.append(statement.name)
                    rows = yield statement
            except StopIteration as ended:
                return ended.value

        monkeypatch.setattr(submissions, "submit", watched)
        url = "https://shop.example.test/hook"
        batch = [Submission(f"o-{n}", "sms", TEXT, callback_url=url) for n in range(1_000)]
        answers = await outrider.submissions.submit_each(DEFAULT_SCOPE, batch)
        assert words(answers) == ["new"] * 1_000
        assert (commits, asked.count("insert_intents")) == (1, 1)
        assert len([name for name in asked if "callback" in name]) == 3
        asked.clear()
        again = await outrider.submissions.submit_each(DEFAULT_SCOPE, batch)
        assert words(again) == ["known"] * 1_000
        found = await store.read(
            submissions.intents_by_key(DEFAULT_SCOPE, [answers[0][0].key])  # type: ignore[index]
        )
        assert [each.callback_url for each in found.values()] == [url]


async def test_a_repeat_may_name_another_callback_and_keeps_the_first(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, *ENTRIES) as outrider:
        one, two = "https://one.example.test/", "https://two.example.test/"
        first = Submission("a", "sms", TEXT, callback_url=one)
        again = Submission("a", "sms", TEXT, callback_url=two)
        _, is_new = await outrider.submissions.submit(DEFAULT_SCOPE, first)
        intent, is_new_again = await outrider.submissions.submit(DEFAULT_SCOPE, again)
        assert (is_new, is_new_again, intent.callback_url) == (True, False, one)


async def listed(outrider: Outrider, most: int, **wanted: Any) -> list[list[str]]:
    """Every page's intents."""
    pages, after = [], LAST
    while True:
        lines, end = await outrider.submissions.page(DEFAULT_SCOPE, after, most, **wanted)
        pages.append([line.intent_id for line in lines])
        if end is None:
            return pages
        after = end


async def test_lists_are_the_newest_first_in_pages_and_of_what_is_asked_for(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, *ENTRIES) as outrider:
        for number in range(5):
            await outrider.submissions.submit(DEFAULT_SCOPE, given(f"s-{number}"))
            await outrider.submissions.submit(DEFAULT_SCOPE, given(f"o-{number}", "other"))
        elsewhere = await outrider.key_keeper.open_workspace("other", "project", "production")
        await outrider.submissions.submit(elsewhere, given("theirs"))
        async with raw_sql(database) as raw:
            await raw.run(
                "UPDATE channel_outbox SET status = 'failed', intent_status = 'EXHAUSTED',"
                " exhausted_reason = 'one_shot', next_attempt_at = NULL"
                " WHERE recipient_id IN ('s-1', 'o-3')"
            )
        newest = [f"{kind}-{number}" for number in reversed(range(5)) for kind in "os"]
        assert list(chain(*await listed(outrider, 3))) == newest
        mine = await listed(outrider, 2, submission_target="sms")
        assert mine[:3] == [["s-4", "s-3"], ["s-2", "s-1"], ["s-0"]]
        exhausted = await listed(outrider, 10, status=IntentStatus.EXHAUSTED)
        assert exhausted == [["o-3", "s-1"]]
        both = await listed(outrider, 10, status=IntentStatus.EXHAUSTED, submission_target="sms")
        assert both == [["s-1"]]


async def test_a_page_examines_a_limited_number_and_says_where_to_continue(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, *ENTRIES) as outrider:
        await outrider.submissions.submit(DEFAULT_SCOPE, given("rare", "other"))
        for number in range(7):
            await outrider.submissions.submit(DEFAULT_SCOPE, given(f"s-{number}"))

        async def page(after: str) -> tuple[list[str], str | None]:
            lines, end = await outrider.store.read(
                intent_lists.intents_page(DEFAULT_SCOPE, after, 5, 4, submission_target="other")
            )
            return [line.intent_id for line in lines], end

        first, end = await page(LAST)
        assert first == []
        assert end is not None
        second, end = await page(end)
        assert second == ["rare"]
        assert end is not None
        assert await page(end) == ([], None)
