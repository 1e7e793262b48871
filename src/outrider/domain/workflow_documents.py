"""A step's timing and recipients as documents: how they are stored and read back."""

from collections.abc import Mapping
from typing import Any

from outrider.domain.workflows import Delay, IfPast, RecipientConfig, Relative, Timing


def timing_document(timing: Timing) -> dict[str, object]:
    if isinstance(timing, Delay):
        return {"delaySeconds": timing.seconds}
    return {
        "relativeTo": timing.path,
        "offsetSeconds": timing.offset_seconds,
        "ifPast": timing.if_past.value,
    }


def timing_from(document: Mapping[str, Any]) -> Timing:
    if "relativeTo" in document:
        return Relative(
            document["relativeTo"], document["offsetSeconds"], IfPast(document["ifPast"])
        )
    return Delay(document["delaySeconds"])


def config_document(config: RecipientConfig) -> dict[str, object]:
    return {
        "includeLeadContact": config.include_lead_contact,
        "includePartner": config.include_partner,
        "includeAgent": config.include_agent,
        "customPhones": list(config.custom_phones),
        "customEmails": list(config.custom_emails),
    }


def config_from(document: Mapping[str, Any]) -> RecipientConfig:
    return RecipientConfig(
        bool(document.get("includeLeadContact")),
        bool(document.get("includePartner")),
        bool(document.get("includeAgent")),
        tuple(document.get("customPhones", ())),
        tuple(document.get("customEmails", ())),
    )
