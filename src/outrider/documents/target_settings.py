"""Where settings and registry disagree: settings of unregistered targets, bad fallbacks.

None of it prevents a registry from being used, so these are warnings with the setting's path.
"""

from collections.abc import Iterator, Mapping

from outrider.domain.errors import Problem
from outrider.domain.reference_memory import memory_of
from outrider.domain.submission import Contract, GatewayType
from outrider.settings import TargetSettings


def setting_warnings(
    contracts: Mapping[str, Contract],
    targets: Mapping[str, TargetSettings],
    gateway_types: Mapping[str, GatewayType],
) -> list[Problem]:
    """Probable mistakes of the operator, in the order of the settings."""
    channels = {
        name: gateway_types[contract.gateway_type].channel for name, contract in contracts.items()
    }

    def warnings() -> Iterator[Problem]:
        for name, settings in targets.items():
            if name not in contracts:
                known = ", ".join(sorted(contracts)) or "none"
                yield Problem(
                    f"targets.{name}", f"is not registered; the registered ones are {known}"
                )
            else:
                documented = gateway_types[contracts[name].gateway_type].remembers
                declared = settings.reference_memory
                if declared is not None and memory_of(documented, declared) != declared:
                    yield Problem(
                        f"targets.{name}.remembers_references",
                        f"its provider documents {documented}, and no more than that is relied on",
                    )
            fallback = settings.fallback
            if fallback is None:
                if settings.fallback_when_down:
                    yield Problem(f"targets.{name}.fallback_when_down", "needs a fallback")
                continue
            path = f"targets.{name}.fallback"
            if fallback == name:
                yield Problem(path, "is the target itself")
            elif fallback not in contracts:
                yield Problem(path, f"'{fallback}' is not registered")
            elif name in channels and channels[fallback] is not channels[name]:
                sends, instead = channels[fallback].value, channels[name].value
                yield Problem(path, f"'{fallback}' sends {sends}, not {instead}")

    return list(warnings())
