"""STOP, START and HELP: the whole message, however it is written, and never part of a sentence."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.opt_out_words import (
    HELP_WORDS,
    READ_MAX_CHARACTERS,
    START_WORDS,
    STOP_WORDS,
    OptOutWord,
    normalised,
    reading,
)

TABLES: Mapping[OptOutWord, Mapping[str, tuple[str, ...]]] = {
    OptOutWord.STOP: STOP_WORDS,
    OptOutWord.START: START_WORDS,
    OptOutWord.HELP: HELP_WORDS,
}
ENTRIES = [
    (word, meaning)
    for meaning, table in TABLES.items()
    for words in table.values()
    for word in words
]
DECORATION = st.text(alphabet=" \t\n.,!?;:'\"()*“”…🛑\u200b", max_size=6)


@pytest.mark.parametrize(
    "word",
    ["stop", "quit", "end", "revoke", "opt out", "cancel", "unsubscribe", "stopall"],
)
def test_every_word_that_the_fcc_names_stops(word: str) -> None:
    assert reading(word) is OptOutWord.STOP
    assert reading(word.upper()) is OptOutWord.STOP


@given(st.sampled_from(ENTRIES), DECORATION, DECORATION, st.sampled_from([str.upper, str.title]))
def test_a_word_means_the_same_however_it_is_written(
    entry: tuple[str, OptOutWord], before: str, after: str, written: object
) -> None:
    word, meaning = entry
    assert callable(written)
    assert reading(before + word + after) is meaning
    assert reading(before + written(word) + after) is meaning


@given(
    st.sampled_from(ENTRIES),
    st.sampled_from(["please", "don't", "the bus", "x", "7", "nicht", "не"]),
    st.booleans(),
)
def test_a_word_within_a_sentence_is_for_people_to_read(
    entry: tuple[str, OptOutWord], other: str, first: bool
) -> None:
    word, _ = entry
    assert reading(f"{other} {word}" if first else f"{word} {other}") is None
    assert reading(f"{word}{word}") is None


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    assert reading(text) in {None, *OptOutWord}
    assert normalised(normalised(text)) == normalised(text)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Stop.", OptOutWord.STOP), ("  STOP ALL  ", OptOutWord.STOP), ("Opt-Out", OptOutWord.STOP),
        ("“STOP”", OptOutWord.STOP), ("ＳＴＯＰ", OptOutWord.STOP), ("arret", OptOutWord.STOP),
        ("ARRÊT", OptOutWord.STOP), ("Désabonner", OptOutWord.STOP), ("kundigen", OptOutWord.STOP),
        ("İptal", OptOutWord.STOP), ("rezygnuje", OptOutWord.STOP), ("配信停止。", OptOutWord.STOP),
        ("start", OptOutWord.START), ("UNSTOP", OptOutWord.START), ("Help?", OptOutWord.HELP),
        ("hilfe", OptOutWord.HELP), ("", None), ("🛑", None), ("...", None), ("yes", None),
        ("don't stop", None), ("stop by tomorrow", None), ("the end", None), ("stopped", None),
        ("stop" + " " * READ_MAX_CHARACTERS, None), ("no", None),
    ],
)  # fmt: skip
def test_what_people_really_write(text: str, meaning: OptOutWord | None) -> None:
    assert reading(text) is meaning


def test_no_word_means_two_things() -> None:
    meanings: dict[str, OptOutWord] = {}
    for word, meaning in ENTRIES:
        assert meanings.setdefault(normalised(word), meaning) is meaning, word
        assert normalised(word)
