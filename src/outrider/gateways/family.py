"""A gateway family: what the code knows about it, and how to make one of its gateways for a
target."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.domain.call_results import Rejected
from outrider.domain.errors import InvalidInput
from outrider.domain.mailbox import Mailbox, MailHead, mailbox
from outrider.domain.submission import GatewayType
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.ports.gateway import Gateway
from outrider.ports.receipts import ReceiptReader
from outrider.ports.secrets import SecretStore, not_given
from outrider.settings import TargetSettings

if TYPE_CHECKING:
    from outrider.gateways.http_client import HttpClient


@dataclass(frozen=True, slots=True)
class Target:
    """Everything a family may use to make the gateway of one submission target."""

    name: str
    url: str
    settings: TargetSettings
    client: "HttpClient"
    secrets: SecretStore
    mail_from: str
    allow_private: bool = True
    workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME
    """The workspace whose messages go there. Its own credentials are resolved for it, shared ones
    for the default workspace that owns them: all who share a gateway must get the same values."""
    receipts_url: str | None = None
    """Where its provider reports on messages; None: this server has no public URL."""

    def refuse_options_but(self, gateway_type: str, known: Set[str]) -> None:
        """A misspelt `starttls = "required"` must not quietly mean "auto"."""
        unknown = sorted(self.settings.options.keys() - known)
        if unknown:
            raise InvalidInput(
                f"submission target '{self.name}' has unknown options: {', '.join(unknown)}",
                hint=f"{gateway_type} supports: {', '.join(sorted(known)) or 'none'}",
            )

    def option(self, name: str, default: str | None = None) -> str:
        """An option of the target's settings; without a default it is required."""
        value = self.settings.options.get(name, default)
        if value is None:
            raise InvalidInput(
                f"submission target '{self.name}' requires the option '{name}'",
                hint=f'set it in outrider.toml: [targets."{self.name}".options] {name} = "…"',
            )
        return value

    @property
    def usual_sender(self) -> Mailbox:
        return mailbox(self.option("from", self.mail_from))

    def refused_sender(self, head: MailHead) -> Rejected | None:
        """A campaign is checked when it is created; the settings may have changed since."""
        if head.sender is None:
            return None
        domain = mailbox(head.sender).domain
        if domain in (self.usual_sender.domain, *self.settings.allowed_senders):
            return None
        return Rejected("invalid_message", f"{domain} is not among the target's allowed_senders")

    def has_credential(self, name: str) -> bool:
        """Whether a credential of this name is set that this workspace may use."""
        given = name in self.settings.credentials
        return given and self.settings.owner_of(name, self.workspace) is not None

    def credential(self, name: str) -> str:
        """The value behind a credential's reference; it must not outlive the gateway."""
        return self.credentials(name)[name]

    def credentials(self, *names: str) -> Mapping[str, str]:
        """The same for several, resolved in one call per workspace that owns secrets."""
        given, owned = self.settings.credentials, defaultdict[WorkspaceName, list[str]](list)
        for name in names:
            if name not in given:
                raise InvalidInput(
                    f"submission target '{self.name}' requires the credential '{name}'",
                    hint=f'[targets."{self.name}".credentials] {name} = "env:VARIABLE"',
                )
            owner = self.settings.owner_of(name, self.workspace)
            if owner is None:
                raise not_given(self.workspace)
            owned[owner].append(name)
        values: dict[str, str] = {}
        for owner, theirs in owned.items():
            found = self.secrets.resolve([given[name] for name in theirs], owner)
            values |= {name: found[given[name]] for name in theirs}
        return values


@dataclass(frozen=True, slots=True)
class Family:
    type: GatewayType
    make: Callable[[Target], Gateway]
    receipts: Callable[[Target], ReceiptReader | None] | None = None
    """Reads its provider's callbacks; None, or None for a target, if there are none."""
