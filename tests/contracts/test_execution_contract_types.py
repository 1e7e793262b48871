"""Contract 000's C1: code that calls a provider without a reservation does not type-check.

mypy judges small programs; a walk over the source keeps reservations from being made elsewhere.
"""

import ast
from pathlib import Path

from mypy import api

import outrider

SOURCE = Path(outrider.__file__).parent

HEAD = """
from outrider.domain.ids import IdempotencyKey, OutboxId
from outrider.kernel.delivery.reservations import Reserver
from outrider.kernel.transactions.jobs import (Hold)
from outrider.kernel.transactions.ledger import (JobContext)
from outrider.kernel.transactions.reserving import (Draft)
from outrider.ports.gateway import Gateway, Reservation
"""

REFUSED = {
    "an_outbox_id_in_text": (
        'async def send(gateway: Gateway) -> None:\n    await gateway.call("0198-outbox-id")\n',
        'incompatible type "str"; expected "Reservation"',
    ),
    "a_typed_outbox_id": (
        "async def send(gateway: Gateway, outbox_id: OutboxId) -> None:\n"
        "    await gateway.call(outbox_id)\n",
        'incompatible type "OutboxId"; expected "Reservation"',
    ),
    "a_dictionary": (
        "async def send(gateway: Gateway) -> None:\n"
        '    await gateway.call({"outbox_id": "1", "address": "+447700900123"})\n',
        'expected "Reservation"',
    ),
    "a_draft": (
        "async def send(gateway: Gateway, draft: Draft) -> None:\n    await gateway.call(draft)\n",
        'incompatible type "Draft"; expected "Reservation"',
    ),
    "nothing": (
        "async def send(gateway: Gateway) -> None:\n    await gateway.call()\n",
        "Missing positional argument",
    ),
    "a_reservation_made_by_hand": (
        "async def send(gateway: Gateway) -> None:\n    await gateway.call(Reservation())\n",
        'Cannot instantiate abstract class "Reservation"',
    ),
    "what_reserving_may_not_have_returned": (
        "async def send(\n"
        "    gateway: Gateway, reserver: Reserver, context: JobContext, drafts: list[Draft]\n"
        ") -> None:\n"
        "    for attempt in await reserver.reserve(context, drafts):\n"
        "        await gateway.call(attempt)\n",
        "has no attribute",
    ),
}

ALLOWED = """
async def send(
    gateway: Gateway, reserver: Reserver, context: JobContext, drafts: list[Draft]
) -> None:
    attempts = await reserver.reserve(context, drafts)
    if isinstance(attempts, Hold):
        return
    for attempt in attempts:
        await gateway.call(attempt)
"""


def judge(folder: Path, programs: dict[str, str]) -> dict[str, str]:
    """What mypy says of each program, in one run, because starting it is what takes long."""
    for name, program in programs.items():
        (folder / f"{name}.py").write_text(HEAD + program)
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {SOURCE.parent}\n")
    out, trouble, _ = api.run(
        [
            "--no-error-summary", "--follow-imports=silent",
            f"--cache-dir={folder / 'cache'}", f"--config-file={folder / 'mypy.ini'}",
            *(str(folder / f"{name}.py") for name in programs),
        ]
    )  # fmt: skip
    assert not trouble
    return {
        name: "\n".join(line for line in out.splitlines() if f"{name}.py:" in line)
        for name in programs
    }


def test_c1_provider_call_requires_outbox(tmp_path: Path) -> None:
    programs = {name: program for name, (program, _) in REFUSED.items()}
    judged = judge(tmp_path, programs | {"allowed": ALLOWED})
    assert judged.pop("allowed") == ""
    for name, (_, complaint) in REFUSED.items():
        assert complaint in judged[name], name


def shipped() -> list[Path]:
    """What runs in production: the gateway suite calls gateways without a ledger, to test them."""
    return [path for path in SOURCE.rglob("*.py") if "testing" not in path.parts]


def test_c1_a_reservation_is_made_nowhere_but_in_the_reserve_stage() -> None:
    makers = set()
    for path in shipped():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and "OpenAttempt" in ast.unparse(node.func):
                makers.add(path.relative_to(SOURCE).as_posix())
    assert makers == {"kernel/delivery/reservations.py"}


def test_c1_the_only_concrete_reservation_in_the_source_is_the_reserve_stages() -> None:
    kinds = set()
    for path in shipped():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "Reservation" in map(ast.unparse, node.bases):
                kinds.add((path.relative_to(SOURCE).as_posix(), node.name))
    assert kinds == {("kernel/delivery/reservations.py", "OpenAttempt")}


def test_c1_gateways_are_called_from_one_place_alone() -> None:
    callers = {
        path.relative_to(SOURCE).as_posix()
        for path in shipped()
        if "gateway.call(" in path.read_text()
    }
    assert callers == {"kernel/delivery/gateway_caller.py"}
