"""A gateway family: what the code knows of it, and how to make one of its gateways for a target."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.domain.errors import InvalidInput
from outrider.domain.submission import GatewayType
from outrider.ports.gateway import Gateway
from outrider.ports.secrets import SecretStore
from outrider.settings import TargetSettings

if TYPE_CHECKING:
    from outrider.gateways.http_client import HttpClient


@dataclass(frozen=True, slots=True)
class Target:
    """All that a family may use to make the gateway of one submission target."""

    name: str
    url: str
    settings: TargetSettings
    client: "HttpClient"
    secrets: SecretStore
    mail_from: str
    allow_private: bool = True

    def refuse_options_but(self, gateway_type: str, known: Set[str]) -> None:
        """A misspelt `starttls = "required"` must not quietly mean "auto"."""
        unknown = sorted(self.settings.options.keys() - known)
        if unknown:
            raise InvalidInput(
                f"submission target '{self.name}' has unknown options: {', '.join(unknown)}",
                hint=f"{gateway_type} knows {', '.join(sorted(known)) or 'none'}",
            )

    def option(self, name: str, default: str | None = None) -> str:
        """An option of the target's settings; without a default it is required."""
        value = self.settings.options.get(name, default)
        if value is None:
            raise InvalidInput(
                f"submission target '{self.name}' needs the option '{name}'",
                hint=f'set it in outrider.toml: [targets."{self.name}".options] {name} = "…"',
            )
        return value

    def credential(self, name: str) -> str:
        """The value behind a credential's reference; it must not outlive the gateway."""
        reference = self.settings.credentials.get(name)
        if reference is None:
            raise InvalidInput(
                f"submission target '{self.name}' needs the credential '{name}'",
                hint=f'[targets."{self.name}".credentials] {name} = "env:VARIABLE"',
            )
        return self.secrets.resolve(reference)


@dataclass(frozen=True, slots=True)
class Family:
    type: GatewayType
    make: Callable[[Target], Gateway]
