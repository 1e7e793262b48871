"""The registry of submission targets: JSON bytes go in, contracts come out, or every problem.

It is read whole or not at all: a running system never has half of a new registry.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator

from outrider.documents import Document, Problems, key_field, load_json
from outrider.domain.contracts import PolicyName, policy_from
from outrider.domain.submission import Contract, GatewayType
from outrider.limits.campaigns import (
    ACCEPTANCE_MAX_SECONDS,
    ATTEMPTS_MAX,
    NAME_MAX_CHARACTERS,
    REGISTRY_MAX_BYTES,
)

ACCEPTED = "accepted"
OUTCOME = re.compile(r"[\x21-\x7e]{1,64}")


@dataclass(frozen=True, slots=True)
class Registry:
    """The contracts in force, by submission target."""

    contracts: dict[str, Contract]


def parse_registry(raw: bytes, gateway_types: Mapping[str, GatewayType]) -> Registry:
    """All contracts, or InvalidInput with all problems; never some of the contracts."""
    problems = Problems("registry")
    if len(raw) > REGISTRY_MAX_BYTES:
        problems.add("", f"is larger than {REGISTRY_MAX_BYTES} bytes")
        raise problems.error()
    given = load_json(raw, problems)
    document = None
    try:
        document = _Registry.model_validate(given, context=gateway_types)
    except ValidationError as error:
        problems.add_all(error)
    _note_repeated_targets(given, problems)
    if problems or document is None:
        raise problems.error()
    return Registry({entry.submission_target: entry.contract() for entry in document.targets})


def _gateway_types(info: ValidationInfo) -> Mapping[str, GatewayType]:
    assert info.context is not None
    types: Mapping[str, GatewayType] = info.context
    return types


def _known_gateway_type(name: str, info: ValidationInfo) -> str:
    known = _gateway_types(info)
    if name not in known:
        raise ValueError(f"is not a known gateway type; use one of {', '.join(sorted(known))}")
    return name


def _outcome(outcome: str) -> str:
    """Contract 001's reasons are not a closed list: a gateway may have its own."""
    if outcome == ACCEPTED:
        raise ValueError("must not contain accepted, which is always terminal")
    if not OUTCOME.fullmatch(outcome):
        raise ValueError("should be a reason of the gateway: 1-64 visible ASCII characters")
    return outcome


def _only_for(policy: PolicyName, number: float | None, info: ValidationInfo) -> None:
    selected = info.data.get("policy")
    if number is None and selected == policy:
        raise ValueError(f"is required where the policy is {policy}")
    if number is not None and selected not in (policy, None):
        raise ValueError(f"should be omitted where the policy is {selected}")


def url_schemes(gateway_type: str) -> tuple[str, ...]:
    match gateway_type:
        case "smtp":
            return ("smtp", "smtps")
        case "noop":
            return ("noop",)
        case _:
            return ("http", "https")


def url_problem(url: str, gateway_type: str) -> str | None:
    """What is wrong with a gateway's address, without repeating it: it may hold a password."""
    if not re.fullmatch(r"[\x21-\x7e]+", url) or "\\" in url:
        return "should be a URL without spaces, control characters or backslashes"
    schemes = url_schemes(gateway_type)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in schemes:
        return f"should begin with {' or '.join(f'{scheme}:' for scheme in schemes)}"
    if "@" in parts.netloc:
        return "must not contain a user name or password; name a secret instead"
    if gateway_type == "noop":
        return None
    if not host or port == 0:
        return "should name a host, and a port from 1 to 65535 where there is one"
    if parts.query or parts.fragment or "?" in url or "#" in url:
        return "should be a base URL, without a query or fragment"
    return None


class _Target(Document):
    """Fields that depend on others come after them and are checked even if absent."""

    submission_target: Annotated[
        str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS), AfterValidator(key_field)
    ]
    gateway_type: Annotated[str, AfterValidator(_known_gateway_type)]
    gateway_url: str
    mode: Literal["realtime", "batch"]
    policy: PolicyName
    max_acceptance_seconds: Annotated[
        Annotated[float, Field(gt=0, le=ACCEPTANCE_MAX_SECONDS)] | None,
        Field(validate_default=True),
    ] = None
    max_attempts: Annotated[
        Annotated[int, Field(gt=0, le=ATTEMPTS_MAX)] | None, Field(validate_default=True)
    ] = None
    terminal_outcomes: list[Annotated[str, AfterValidator(_outcome)]]

    @field_validator("gateway_url")
    @classmethod
    def _url_fits_type(cls, url: str, info: ValidationInfo) -> str:
        gateway_type = info.data.get("gateway_type")
        if gateway_type is not None and (wrong := url_problem(url, gateway_type)):
            raise ValueError(wrong)
        return url

    @field_validator("max_acceptance_seconds")
    @classmethod
    def _seconds_fit_policy(cls, seconds: float | None, info: ValidationInfo) -> float | None:
        _only_for("deadline", seconds, info)
        return seconds

    @field_validator("max_attempts")
    @classmethod
    def _attempts_fit_policy(cls, attempts: int | None, info: ValidationInfo) -> int | None:
        _only_for("max_attempts", attempts, info)
        return attempts

    @field_validator("terminal_outcomes")
    @classmethod
    def _each_once(cls, outcomes: list[str]) -> list[str]:
        if len(set(outcomes)) != len(outcomes):
            raise ValueError("should not contain duplicates")
        return outcomes

    def contract(self) -> Contract:
        return Contract(
            self.submission_target,
            self.gateway_type,
            self.gateway_url,
            self.mode,
            policy_from(self.policy, self.max_acceptance_seconds, self.max_attempts),
            frozenset(self.terminal_outcomes),
        )


class _Registry(Document):
    targets: list[_Target]


def _note_repeated_targets(given: object, problems: Problems) -> None:
    """Searched in the raw input, so that a target's other mistakes do not hide this one."""
    targets = given.get("targets") if isinstance(given, dict) else None
    first: dict[str, int] = {}
    for index, target in enumerate(targets if isinstance(targets, list) else ()):
        name = target.get("submissionTarget") if isinstance(target, dict) else None
        if isinstance(name, str) and first.setdefault(name, index) != index:
            same = f"targets[{first[name]}].submissionTarget"
            problems.add(f"targets[{index}].submissionTarget", f"is the same as {same}")
