"""All gateway families this code knows, and the one live gateway for each submission target."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import TargetEvidence
from outrider.domain.submission import GatewayType
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways import json_family, noop, smtp
from outrider.gateways.families import (
    apns,
    bluesky,
    brevo,
    expo,
    fcm,
    infobip,
    mailgun,
    mailjet,
    mastodon,
    plivo,
    postmark,
    resend,
    sendgrid,
    ses,
    sinch,
    slack,
    telegram,
    telnyx,
    twilio,
    vonage,
    web_push,
    whatsapp_cloud,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.mail_receiver import ReturnMailbox, mailboxes_in
from outrider.gateways.mail_sender import MailSender
from outrider.limits.gateways import MAIL_FROM_DEFAULT
from outrider.ports.gateway import RECORDS, Gateway
from outrider.ports.receipts import ReceiptReader
from outrider.ports.secrets import SecretStore
from outrider.settings import TargetSettings

if TYPE_CHECKING:
    from outrider.gateways.http_client import HttpClient
    from outrider.gateways.wire_tap import WireTap

FAMILIES: Final[dict[str, Family]] = {
    family.type.name: family
    for family in (
        json_family.SMS_FAMILY,
        json_family.PUSH_FAMILY,
        smtp.FAMILY,
        resend.FAMILY,
        ses.FAMILY,
        sendgrid.FAMILY,
        mailgun.FAMILY,
        postmark.FAMILY,
        brevo.FAMILY,
        mailjet.FAMILY,
        twilio.SMS_FAMILY,
        twilio.VOICE_FAMILY,
        telnyx.FAMILY,
        vonage.FAMILY,
        sinch.FAMILY,
        infobip.FAMILY,
        plivo.FAMILY,
        whatsapp_cloud.FAMILY,
        fcm.FAMILY,
        apns.FAMILY,
        web_push.FAMILY,
        expo.FAMILY,
        slack.FAMILY,
        telegram.FAMILY,
        mastodon.FAMILY,
        bluesky.FAMILY,
        noop.FAMILY,
    )
}
GATEWAY_TYPES: Final[dict[str, GatewayType]] = {
    name: family.type for name, family in FAMILIES.items()
}


NOTHING_SET = TargetSettings()
"""Made once: it is needed for every message."""


class Gateways:
    """The GatewayDirectory of a process: its gateways share one HTTP client and are made once."""

    def __init__(
        self,
        secrets: SecretStore,
        client: "HttpClient | None" = None,
        *,
        mail_from: str = MAIL_FROM_DEFAULT,
        targets: Mapping[str, TargetSettings] | None = None,
        allow_private: bool = True,
        public_url: str | None = None,
    ) -> None:
        self._secrets = secrets
        self._public_url = public_url
        self._client = client
        self._allow_private = allow_private
        self._mail_from = mail_from
        self._targets = targets or {}
        self._gateways: dict[tuple[str, str, str, WorkspaceName | None], Gateway] = {}
        self._readers: dict[tuple[str, str, WorkspaceName | None], ReceiptReader | None] = {}

    def gateway(
        self,
        submission_target: str,
        gateway_type: str,
        gateway_url: str,
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,
    ) -> Gateway:
        # Workspaces with the same set-up share a gateway, its connections and its limits.
        own = self._has_its_own(submission_target, workspace)
        key = submission_target, gateway_type, gateway_url, workspace if own else None
        if key not in self._gateways:
            self._gateways[key] = self._make(
                submission_target, gateway_type, gateway_url, workspace
            )
        return self._gateways[key]

    def receipt_reader(
        self,
        submission_target: str,
        gateway_type: str,
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,
    ) -> ReceiptReader | None:
        """None if the provider reports nothing, or the target has no secret to verify reports with.

        InvalidInput: the secret is set, but cannot be read or used.
        """
        family = FAMILIES.get(gateway_type)
        if family is None or family.receipts is None:
            return None
        own = self._has_its_own(submission_target, workspace)
        key = submission_target, gateway_type, workspace if own else None
        if key not in self._readers:
            target = self._target(submission_target, "", workspace)
            self._readers[key] = family.receipts(target)
        return self._readers[key]

    def evidence(
        self,
        submission_target: str,
        gateway_type: str,
        gateway_url: str,
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,
    ) -> TargetEvidence:
        gateway = self.gateway(submission_target, gateway_type, gateway_url, workspace)
        declared = gateway.type.evidence
        receipts = declared.receipts
        if receipts is not None:
            try:
                reader = self.receipt_reader(submission_target, gateway_type, workspace)
            except InvalidInput:
                reader = None
            receipts = None if reader is None else receipts
        return TargetEvidence(
            gateway.memory, gateway.looks_up, receipts, declared.needs_same_request
        )

    def mail_sender(
        self,
        submission_target: str,
        gateway_type: str,
        gateway_url: str,
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,
    ) -> MailSender | None:
        """In whose name a target sends mail; None if that is its provider's matter."""
        gateway = self.gateway(submission_target, gateway_type, gateway_url, workspace)
        return gateway.sender if isinstance(gateway, smtp.SmtpGateway) else None

    def recipes(self) -> list[tuple[str, str, str, str]]:
        found = []
        for (target, _, url, workspace), gateway in self._gateways.items():
            whose = "" if workspace is None else str(workspace)
            if gateway.type.evidence.needs_same_request:
                found.append((target, url, whose, gateway.recipe))
            if gateway.looks_up is not None:
                found.append((target, url, whose, RECORDS + gateway.records))
        return found

    def receipts_url(
        self, submission_target: str, workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME
    ) -> str | None:
        """Where a provider reports. Workspaces that share a target have the default workspace's
        URL, as they have its gateway: a report's reference says whose it is."""
        if self._public_url is None:
            return None
        of_one = workspace != DEFAULT_WORKSPACE_NAME and self._has_its_own(
            submission_target, workspace
        )
        path = (":".join(workspace), submission_target) if of_one else (submission_target,)
        return "/".join((self._public_url, "receipts", *(quote(part, safe=":") for part in path)))

    def return_mailboxes(self) -> list[ReturnMailbox]:
        """The bounce mailboxes of every target that has a return path."""
        return mailboxes_in(
            self._targets, lambda name, workspace: self._target(name, "", workspace)
        )

    def own_workspaces(self, submission_target: str) -> list[WorkspaceName]:
        return [
            WorkspaceName.parse(name)
            for name in sorted(self._settings(submission_target).workspaces)
        ]

    def shares_reports(self, submission_target: str, workspace: WorkspaceName) -> bool:
        return self._settings(submission_target).shares_reports(workspace)

    def is_scoped(self, submission_target: str, workspace: WorkspaceName) -> bool:
        settings = self._settings(submission_target)
        return bool(settings.workspaces) or not settings.is_shared_with(workspace)

    def _has_its_own(self, submission_target: str, workspace: WorkspaceName) -> bool:
        settings = self._settings(submission_target)
        return str(workspace) in settings.workspaces or not settings.is_shared_with(workspace)

    def _settings(self, submission_target: str) -> TargetSettings:
        return self._targets.get(submission_target, NOTHING_SET)

    def get_ready(self) -> None:
        """Load slow imports now, not between two calls of a worker."""
        self._http()

    @asynccontextmanager
    async def tapped(self, tap: "WireTap") -> AsyncIterator[None]:
        """Shows it every message's request and answer while the block runs."""
        client = self._http()
        client.tap = tap
        try:
            yield
        finally:
            client.tap = None

    async def close(self) -> None:
        gateways, self._gateways = self._gateways, {}
        for gateway in gateways.values():
            await gateway.close()
        if self._client is not None:
            await self._client.close()

    def _make(
        self,
        submission_target: str,
        gateway_type: str,
        gateway_url: str,
        workspace: WorkspaceName,
    ) -> Gateway:
        family = FAMILIES.get(gateway_type)
        if family is None:
            raise InvalidInput(
                f"'{gateway_type}' is not a gateway type",
                hint=f"known gateway types: {', '.join(sorted(FAMILIES))}",
            )
        return family.make(self._target(submission_target, gateway_url, workspace))

    def _target(self, submission_target: str, gateway_url: str, workspace: WorkspaceName) -> Target:
        settings = self._settings(submission_target).of(workspace)
        return Target(
            submission_target, gateway_url, settings, self._http(), self._secrets,
            self._mail_from, self._allow_private, workspace,
            self.receipts_url(submission_target, workspace),
        )  # fmt: skip

    def _http(self) -> "HttpClient":
        """Made with the first gateway: creating it earlier would be a quarter of a command's
        start-up."""
        if self._client is None:
            from outrider.gateways.http_client import HttpClient

            self._client = HttpClient(allow_private=self._allow_private)
        return self._client
