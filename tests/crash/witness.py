"""The provider's own log, the one witness that no crash of ours can touch."""

from collections import Counter
from pathlib import Path

import msgspec

from outrider.gateways.sandbox import Outcome, references_delivered


class LogLine(msgspec.Struct, rename="camel"):
    reference_id: str
    outcome: Outcome
    delivered: bool


class Witness:
    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path

    def deliveries(self) -> Counter[str]:
        return references_delivered(self.log_path)

    def lines(self) -> list[LogLine]:
        with self.log_path.open("rb") as lines:
            return [msgspec.json.decode(line, type=LogLine) for line in lines]

    def delivered_twice(self) -> list[str]:
        return [reference for reference, times in self.deliveries().items() if times > 1]

    def called_after_delivery(self) -> list[str]:
        """References that were called again although the provider already had them."""
        had: set[str] = set()
        again = []
        for line in self.lines():
            if line.reference_id in had:
                again.append(line.reference_id)
            if line.delivered:
                had.add(line.reference_id)
        return again
