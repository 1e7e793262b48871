"""Writes docs/reference/state-machines.md from the transition tables; a test compares them."""

from enum import StrEnum
from pathlib import Path

from outrider.domain.states import MACHINES, StateMachine

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "state-machines.md"

HEAD = """# State machines

Generated from `src/outrider/domain/states.py` by `make docs`; do not edit. What is not drawn is
refused, with an `InvalidTransition` error.
"""


def diagram(machine: StateMachine[StrEnum]) -> str:
    lines = [f"## {machine.name}", "", "```mermaid", "stateDiagram-v2"]
    lines.append(f"    [*] --> {machine.initial.value}")
    lines += [
        f"    {before.value} --> {after.value}: {trigger}"
        for (before, trigger), after in machine.table.items()
    ]
    states = {state for (state, _), after in machine.table.items() for state in (state, after)}
    ends = states - {before for before, _ in machine.table}
    lines += sorted(f"    {end.value} --> [*]" for end in ends)
    return "\n".join([*lines, "```"])


def page() -> str:
    return "\n\n".join([HEAD.strip(), *(diagram(machine) for machine in MACHINES)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
