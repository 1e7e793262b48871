"""What programs may rely on: the names, their types, and the wheel that carries them."""

import ast
import json
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import outrider
import outrider.testing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/python-api.md").read_text()
WRONG = "# wrong"

RIGHT = """
from collections.abc import Mapping, Sequence

from outrider import (
    Accepted,
    AddressKind,
    AttemptError,
    CallResult,
    Channel,
    Composition,
    DomainEvent,
    PhaseContext,
    Gateway,
    GatewayType,
    IdempotencyKey,
    LegacySender,
    LookedUp,
    LookUpQuestion,
    NotBegun,
    PhaseHandler,
    PhaseJob,
    PhaseJobPlan,
    PhaseResult,
    Progress,
    RecipientConfig,
    ReferenceMemory,
    Reservation,
    RoutePlace,
    Settings,
    Submission,
    open_outrider,
)
from outrider.testing import FakeClock, GatewayConformance


class Phase:
    name = "mine"

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:
        return [PhaseJobPlan(await context.positions())]

    async def process(self, context: PhaseContext, job: PhaseJob) -> PhaseResult:
        await context.mark_invalid(AddressKind.PHONE, [0])
        return PhaseResult(job.items)


class Pipe:
    type = GatewayType("pipe", Channel.SMS, frozenset({"invalid_recipient"}))
    memory = ReferenceMemory.parse("24h")
    window_items = 10
    concurrency = 2

    async def call(self, reservation: Reservation) -> CallResult:
        if not reservation.begin():
            return NotBegun("withheld")
        if not reservation.address:
            return AttemptError(Progress.NOT_SENT, "no_address")
        return Accepted(reservation.reference)

    looks_up = None
    recipe = ""
    records = ""

    async def look_up(
        self,
        questions: Sequence[LookUpQuestion],  # noqa: ARG002
    ) -> Mapping[IdempotencyKey, LookedUp]:
        return {}

    async def trim(self, connections: int) -> None: ...

    async def close(self) -> None: ...


class Sender:
    name = "mine"
    trigger = "visit_booked"
    place = RoutePlace(Channel.SMS, "lead")

    def compose(self, event: DomainEvent) -> Composition | str:
        if "day" not in event.variables:
            return "no day"
        return Composition(None, "On {{ day }}", RecipientConfig(include_lead_contact=True))


class TestPipe(GatewayConformance):
    gateway_type, channel = "pipe", Channel.SMS


phase: PhaseHandler = Phase()
gateway: Gateway = Pipe()
sender: LegacySender = Sender()
clock = FakeClock()


async def main() -> bool:
    async with open_outrider(Settings(database_url="sqlite:///x.db")) as opened:
        _, is_new = await opened.emit("visit_booked", event_id="v-1", variables={"day": "Monday"})
    return is_new
"""

MISTAKES = f"""
from collections.abc import Sequence

from outrider import Channel, Composition, DomainEvent, Gateway, GatewayType, IdempotencyKey
from outrider import LegacySender, PhaseContext, PhaseHandler, PhaseJob, PhaseJobPlan, PhaseResult
from outrider import Accepted, Reservation, RoutePlace
from outrider import NoSuchName  {WRONG}
from outrider.testing import NoSuchSuite  {WRONG}


class Phase:
    name = "mine"

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:
        return [PhaseJobPlan(await context.people())]  {WRONG}

    async def process(self, context: PhaseContext, job: PhaseJob) -> int:
        return job.items


class Pipe:
    type = GatewayType("pipe", "sms", frozenset())  {WRONG}

    async def call(self, address: str) -> Accepted:
        return Accepted(12)  {WRONG}


class Sender:
    name = "mine"
    trigger = "visit_booked"
    place = RoutePlace("sms", "lead")  {WRONG}

    def compose(self, event: DomainEvent) -> Composition | None:
        return Composition(None, b"bytes", event)  {WRONG}


class Forged(Reservation):
    pass


phase: PhaseHandler = Phase()  {WRONG}
gateway: Gateway = Pipe()  {WRONG}
sender: LegacySender = Sender()  {WRONG}
forged = Forged()  {WRONG}
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a fresh environment with the wheel in it; its dependencies are the ones we have."""
    folder = tmp_path_factory.mktemp("fresh")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "env", symlinks=True)
    made = folder / "env/bin/python"
    [packages] = (folder / "env").glob("lib/*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(made), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    # Last, so that Outrider is the installed one and not the one of this folder.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def run(python: Path, code: str, folder: Path) -> str:
    done = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_every_public_name_and_every_page(python: Path, tmp_path: Path) -> None:
    code = """
import json, outrider, outrider.testing
from pathlib import Path
from outrider.api import unsubscribe_page
for module in (outrider, outrider.testing):
    for name in module.__all__:
        getattr(module, name)
assert "does not work" in unsubscribe_page.unknown()
folder = Path(outrider.__file__).parent
print(json.dumps([str(folder), sorted(p.name for p in folder.rglob("*") if p.is_file())]))
"""
    where, files = json.loads(run(python, code, tmp_path))
    assert where.startswith(str(python.parents[1]))
    sources = {path for path in (ROOT / "src/outrider").rglob("*") if path.is_file()}
    ours = {path.name for path in sources if "__pycache__" not in path.parts}
    assert ours - set(files) == set()
    assert "py.typed" in files


def test_importing_outrider_imports_nothing_else(python: Path, tmp_path: Path) -> None:
    code = (
        "import sys; before = set(sys.modules); import outrider; print(set(sys.modules) - before)"
    )
    assert run(python, code, tmp_path) == "{'outrider'}\n"


def test_types_of_the_wheel_find_what_is_wrong_and_nothing_else(
    python: Path, tmp_path: Path
) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    files = {"right": RIGHT, "mistakes": MISTAKES, "page": "\n".join(example)}
    for name, code in files.items():
        (tmp_path / f"{name}.py").write_text(code)
    checked = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--python-executable", python,
            "--cache-dir", tmp_path / "cache", "--config-file", "",
            *(f"{name}.py" for name in files),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )  # fmt: skip
    found = set(re.findall(r"^(\w+)\.py:(\d+): error", checked.stdout, re.MULTILINE))
    planted = {
        ("mistakes", str(number))
        for number, line in enumerate(MISTAKES.splitlines(), start=1)
        if line.endswith(WRONG)
    }
    assert len(planted) == 11
    assert found == planted, checked.stdout + checked.stderr


@pytest.mark.parametrize("package", [outrider, outrider.testing])
def test_a_public_name_is_where_type_checkers_find_it(package: object) -> None:
    """It is written twice, for them and for Python; both say the same."""
    stub = Path(getattr(package, "__file__", "")).with_suffix(".pyi")
    imported = {
        alias.asname: node.module
        for node in ast.walk(ast.parse(stub.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    name = getattr(package, "__name__", "")
    homes = {each: f"{name}.{module}" for each, module in getattr(package, "_HOME", {}).items()}
    assert imported == homes


def test_the_page_describes_every_public_name_and_no_other() -> None:
    tables = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    public = {*vars(outrider)["__all__"], *vars(outrider.testing)["__all__"]} - {"__version__"}
    assert set(re.findall(r"`(\w+)`", "".join(tables))) - public == set()
    assert public - set(re.findall(r"`(\w+)`", PAGE)) == set()
