"""Every family's evidence as rows: by what a doubt about one of its calls can settle.

The declarations are in the families' files; docs/reference/gateways.md has a table of them.
"""

from outrider.domain.evidence import LookUp
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.submission import GatewayType
from outrider.gateways.directory import GATEWAY_TYPES

HEADER = (
    "| type | key | look-up | what has to agree | absent counts after | asked for | reference"
    " returns in | a repeat replaces the first by |\n|---|---|---|---|---|---|---|---|\n"
)


def table() -> str:
    """As docs/reference/gateways.md shows it. `noop` calls nobody."""
    rows = (_row(each) for name, each in GATEWAY_TYPES.items() if name != "noop")
    return HEADER + "".join(rows)


def _row(gateway: GatewayType) -> str:
    evidence = gateway.evidence
    memory = gateway.remembers
    key = "declared" if memory is None else str(memory) if memory.is_memory else ""
    if key and evidence.needs_same_request:
        key += ", same bytes"
    asked = _look_up(evidence.look_up, declared=evidence.declared_look_up)
    receipts = "" if evidence.receipts is None else evidence.receipts.returns
    replaced = evidence.collapses or ""
    return f"| {' | '.join((f'`{gateway.name}`', key, *asked, receipts, replaced))} |\n"


def _look_up(look_up: LookUp | None, *, declared: bool) -> tuple[str, str, str, str]:
    if look_up is None:
        return ("declared", "reference", "declared", "declared") if declared else ("", "", "", "")
    return (
        f"[{look_up.asks}]({look_up.source})",
        ", ".join(look_up.compares),
        str(ReferenceMemory(look_up.delay_seconds)),
        str(ReferenceMemory(look_up.retention_seconds)),
    )


if __name__ == "__main__":
    print(table(), end="")
