"""Each role of the kernel has a test file of its name, where a reader looks for it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "src/outrider/kernel"
TESTS = ROOT / "tests/kernel"
SCRIPTS = "transactions"
"""No roles: scripts that the roles run, each tested through them and by the public store suite."""


def test_every_role_of_the_kernel_has_a_test_file_of_its_name() -> None:
    roles = [
        file.relative_to(KERNEL)
        for file in sorted(KERNEL.glob("*/*.py"))
        if file.parent.name != SCRIPTS and file.stem != "__init__"
    ]
    assert len(roles) > 50, "the roles are looked for in the wrong place"
    untested = [str(role) for role in roles if not _test_of(role).exists()]
    assert not untested, f"write tests/kernel/<room>/test_<role>.py for {', '.join(untested)}"


def test_a_file_of_tests_for_a_role_has_tests() -> None:
    empty = [
        str(file.relative_to(ROOT))
        for file in sorted(TESTS.glob("*/test_*.py"))
        if "def test_" not in file.read_text()
    ]
    assert not empty


def _test_of(role: Path) -> Path:
    return TESTS / role.parent / f"test_{role.name}"
