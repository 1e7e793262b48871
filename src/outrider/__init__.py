"""Outrider: a durable execution kernel for outbound communication.

The names here are the public API; docs/reference/python-api.md describes each. A name is imported
on first use, so that `import outrider` costs next to nothing.
"""

__version__ = "0.1.0"

_HOMES = {
    "bootstrap": "Outrider open_outrider",
    "domain.addresses": "normalise_phone",
    "domain.call_results": "Accepted AttemptError CallResult Held NotBegun Progress Rejected"
    " Throttled",
    "domain.campaigns": "CampaignDefinition",
    "domain.emissions": "Emission",
    "domain.errors": "Conflict IdempotencyConflict InvalidInput NotFound OutriderError"
    " StoreUnavailable",
    "domain.evidence": "Evidence LookedUp LookUp Match Receipts",
    "domain.ids": "DEFAULT_SCOPE IdempotencyKey Scope",
    "domain.message_content": "Attachment Enclosure",
    "domain.recipients": "AddressKind Recipient",
    "domain.reference_memory": "ReferenceMemory",
    "domain.states": "Channel",
    "domain.submission": "GatewayType",
    "domain.workflows": "DomainEvent RecipientConfig RoutePlace",
    "gateways.content": "Content",
    "gateways.family": "Family Target",
    "gateways.http": "base_url",
    "gateways.provider": "ProviderGateway Reasons Request ProviderReply form_request json_request",
    "kernel.submissions.submission_manager": "Submission",
    "ports.gateway": "Gateway LookUpQuestion Reservation",
    "ports.legacy": "Composition LegacySender",
    "ports.phases": "AudienceChunk AudienceMember PhaseContext PhaseHandler PhaseJob PhaseJobPlan"
    " PhaseResult ResultLine",
    "ports.secrets": "SecretScheme",
    "settings": "Settings",
    "transactional": "emit_in_postgres emit_in_sqlite",
}
"""Where each public name is defined; type checkers read it in the stub beside this file."""
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"outrider.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
