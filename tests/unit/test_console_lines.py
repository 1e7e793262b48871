"""What is printed for people: whatever strangers wrote, it is text and nothing else."""

import pytest

from outrider.cli.console import out, shown


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("plain", "plain"),
        ("[bold]order[/17]", "\\[bold]order\\[/17]"),
        ("\x1b]0;title\x07\x1b[2J", "\\x1b]0;title\\x07\\x1b[2J"),
        ("two\nlines\tkept", "two\nlines\tkept"),
    ],
)
def test_markup_is_escaped_and_commands_to_the_terminal_are_spelt_out(
    text: str, printed: str
) -> None:
    assert shown(text) == printed


def test_a_text_between_colons_is_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    out.print("no server answers at a:b:7233")
    assert "a:b:7233" in capsys.readouterr().out
