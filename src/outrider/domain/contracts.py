"""A contract as a document, and the document's hash: how a snapshot is stored and found again."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, assert_never

from outrider.domain.submission import Contract, Deadline, MaxAttempts, OneShot, Policy

PolicyName = Literal["deadline", "max_attempts", "one_shot"]


def contract_document(contract: Contract) -> dict[str, Any]:
    """The contract as its registry entry, in one canonical form."""
    return {
        "submissionTarget": contract.submission_target,
        "gatewayType": contract.gateway_type,
        "gatewayUrl": contract.gateway_url,
        "mode": contract.mode,
        **_policy_document(contract.policy),
        "terminalOutcomes": sorted(contract.terminal_outcomes),
    }


def contract_from_document(document: Mapping[str, Any]) -> Contract:
    """The contract of a snapshot. It was validated when it was registered and is not validated
    again."""
    return Contract(
        document["submissionTarget"],
        document["gatewayType"],
        document["gatewayUrl"],
        document["mode"],
        policy_from(
            document["policy"], document.get("maxAcceptanceSeconds"), document.get("maxAttempts")
        ),
        frozenset(document["terminalOutcomes"]),
    )


def contract_text(contract: Contract) -> str:
    """Canonical JSON: the same terms always give the same text, and so the same hash."""
    return json.dumps(
        contract_document(contract), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def contract_sha256(contract: Contract) -> str:
    return hashlib.sha256(contract_text(contract).encode()).hexdigest()


def policy_from(name: PolicyName, seconds: float | None, attempts: int | None) -> Policy:
    match name:
        case "deadline":
            assert seconds is not None
            return Deadline(float(seconds))
        case "max_attempts":
            assert attempts is not None
            return MaxAttempts(attempts)
        case "one_shot":
            return OneShot()
        case other:
            assert_never(other)


def _policy_document(policy: Policy) -> dict[str, Any]:
    match policy:
        case Deadline(seconds):
            # 30 and 30.0 are the same term, so both are written the same way.
            whole = int(seconds) if float(seconds).is_integer() else seconds
            return {"policy": "deadline", "maxAcceptanceSeconds": whole}
        case MaxAttempts(attempts):
            return {"policy": "max_attempts", "maxAttempts": attempts}
        case OneShot():
            return {"policy": "one_shot"}
        case other:
            assert_never(other)
