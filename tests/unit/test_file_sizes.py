"""One concept a file: a source file that has grown too long holds several, and is divided."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES_MAX = 400
FOLDERS = ("src", "client/src", "scripts", "bench")
GENERATED = {
    "client/src/outrider_client/models.py",
    "client/src/outrider_client/operations.py",
    "client/src/outrider_client/async_operations.py",
}
"""Written by scripts/client_code.py from the API's description."""


def source_files() -> list[Path]:
    return [
        file
        for folder in FOLDERS
        for kind in ("*.py", "*.js", "*.css")
        for file in sorted((ROOT / folder).rglob(kind))
    ]


def too_long(file: Path) -> bool:
    return len(file.read_text().splitlines()) > LINES_MAX


def test_no_source_file_is_too_long() -> None:
    files = source_files()
    assert len(files) > 900, "the files are looked for in the wrong place"
    names = {str(file.relative_to(ROOT)) for file in files if too_long(file)}
    assert names - GENERATED == set(), "divide them by subject"


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_a_file_that_is_excepted_is_generated(name: str) -> None:
    assert "Generated from" in (ROOT / name).read_text()[:200]


def test_a_file_that_is_too_long_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("\n" * LINES_MAX)
    assert not too_long(file)
    file.write_text("\n" * (LINES_MAX + 1))
    assert too_long(file)
