"""Contracts as they were when messages were written under them."""

from outrider.ports.store import Transaction, ask


def contract_document(contract_id: int) -> Transaction[str]:
    rows = yield from ask("contract_by_id", contract_id=contract_id)
    document: str = rows[0][0]
    return document
