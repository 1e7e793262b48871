"""Evidence bundles: one run in a signed file of lines, each a JSON array that begins with its kind.

The last line has the SHA-256 of all bytes before it, and an Ed25519 signature over that hash. An
inclusion proof is for one recipient: their rows, and the paths from these to a seal's root.
"""

from dataclasses import dataclass
from enum import StrEnum

BUNDLE_FORMAT = "outrider-evidence/1"
INCLUSION_FORMAT = "outrider-inclusion/1"

EVENT_FIELDS = (
    "runId", "type", "occurredAt", "stepId", "logicalAttempt", "engineAttempt", "emitter",
    "planVersion", "idempotencyKey", "contractVersion", "signalId", "payload",
)  # fmt: skip


class LineKind(StrEnum):
    BUNDLE = "bundle"
    SEAL = "seal"
    CONTRACT = "contract"
    TEMPLATE = "template"
    HOLD = "hold"
    VERDICT = "verdict"
    EVENT = "event"
    LEDGER = "ledger"
    RECEIPT = "receipt"
    END = "end"


class BundleProblem(StrEnum):
    """What does not hold in a bundle."""

    UNREADABLE = "unreadable"
    CUT_OFF = "cut_off"
    DIGEST = "digest"
    SIGNATURE = "signature"
    KEY = "key"
    SEAL = "seal"
    EVENT = "event"
    EVENT_HEAD = "event_head"
    LEDGER_ROW = "ledger_row"
    LEDGER_ROOT = "ledger_root"
    RECEIPT = "receipt"
    RECEIPTS_ROOT = "receipts_root"
    ACCOUNTING = "accounting"
    CONTRACT = "contract"
    PERSON = "person"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class BundleFinding:
    problem: BundleProblem
    which: str = ""
    """The line, sequence or row."""
