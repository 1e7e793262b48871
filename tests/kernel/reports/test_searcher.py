"""The searcher: one text, several meanings, and what it refuses."""

from pathlib import Path

import pytest

from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.limits.people import SEARCH_MAX_CHARACTERS
from outrider.testing.launches import launch, message, people, target
from tests.support.whole_runs import opened

SMS = target("sms", "noop", "noop:")


async def test_a_text_that_is_several_things_finds_all_of_them(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, SMS) as outrider:
        # A recipient who is called as the campaign is.
        run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(2, prefix="test"))
        await launch(outrider, [message(Channel.SMS, "sms")], people(1, prefix="Test"))
        found = await outrider.searcher.find(DEFAULT_SCOPE, "  TEST ")
        assert [each.kind.value for each in found] == ["campaign", "campaign"]
        assert [each.id for each in found] == sorted((each.id for each in found), reverse=True)
        named = await outrider.searcher.find(DEFAULT_SCOPE, "test-0")
        assert [(each.kind.value, each.id) for each in named] == [("person", "test-0")]
        (run,) = await outrider.searcher.find(DEFAULT_SCOPE, str(run_id).upper())
        assert (run.kind.value, run.id, run.title) == ("run", run_id, "test")


@pytest.mark.parametrize("words", ["", "  ", "x" * (SEARCH_MAX_CHARACTERS + 1), "a\x00b"])
async def test_an_impossible_name_is_refused(tmp_path: Path, words: str) -> None:
    async with opened(f"sqlite:///{tmp_path}/outrider.db", tmp_path, SMS) as outrider:
        with pytest.raises(InvalidInput, match="nothing to search for"):
            await outrider.searcher.find(DEFAULT_SCOPE, words)
