"""Returned mail: matched by its return path, read, and written to the inbox.

Anyone can write to a mail server, so only a token that we made is trusted: in the address the mail
was sent to, or in the part of our message that a complaint returns.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from outrider.domain.return_paths import ReturnPath
from outrider.domain.webhook_signatures import signing_keys
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.family import Target
from outrider.gateways.json_receipts import CREDENTIAL
from outrider.gateways.mail_reports import Returned, read_mail
from outrider.gateways.receipt_reading import ReceiptSecret
from outrider.gateways.smtp_receipts import RETURN_PATH_OPTION, return_path_of
from outrider.limits.gateways import MAIL_READ_IN_LOOP_BYTES
from outrider.ports.receipts import ReceiptInbox
from outrider.settings import TargetSettings


class MailOutcome(StrEnum):
    TAKEN = "taken"
    """Its content is durable; empty if it says nothing about a message."""
    NOT_OURS = "not_ours"
    """It holds no token that we made."""


@dataclass(frozen=True, slots=True)
class ReturnMailbox:
    """Where the bounces of one target of one workspace arrive."""

    workspace: WorkspaceName
    submission_target: str
    return_path: ReturnPath
    secret: ReceiptSecret

    def reference_in(self, address: str) -> str | None:
        return self.return_path.reference_in(self.secret.keys(), address)


class MailReceiver:
    def __init__(self, mailboxes: Sequence[ReturnMailbox], inbox: ReceiptInbox) -> None:
        self.mailboxes = mailboxes
        self._inbox = inbox

    def knows(self, address: str) -> bool:
        """Whether mail to it can concern us: asked before the mail is read."""
        for mailbox in self.mailboxes:
            token = mailbox.return_path.token_in(address)
            if token == "" or (token and mailbox.reference_in(address) is not None):
                return True
        return False

    async def take(self, recipients: Sequence[str], raw: bytes) -> MailOutcome:
        """Returns when the mail's content is durable."""
        if len(raw) > MAIL_READ_IN_LOOP_BYTES:
            mail = await asyncio.to_thread(read_mail, raw)
        else:
            mail = read_mail(raw)
        found = self._sent_by_us(recipients, mail)
        if found is None:
            return MailOutcome.NOT_OURS
        mailbox, reference = found
        receipts = mail.proved(reference)
        if receipts:
            await self._inbox.take(str(mailbox.workspace), mailbox.submission_target, receipts)
        return MailOutcome.TAKEN

    def _sent_by_us(
        self, recipients: Sequence[str], mail: Returned
    ) -> tuple[ReturnMailbox, str] | None:
        for address in (*recipients, *mail.addresses):
            for mailbox in self.mailboxes:
                reference = mailbox.reference_in(address)
                if reference is not None:
                    return mailbox, reference
        return None


def mailboxes_in(
    targets: Mapping[str, TargetSettings], make: Callable[[str, WorkspaceName], Target]
) -> list[ReturnMailbox]:
    """For every target with a return path and a secret, and each workspace with its own."""
    return [
        ReturnMailbox(workspace, name, return_path, ReceiptSecret(target, CREDENTIAL, signing_keys))
        for name, settings in targets.items()
        for workspace in _workspaces_with_their_own(settings)
        if (target := make(name, workspace)).has_credential(CREDENTIAL)
        and (return_path := return_path_of(target)) is not None
    ]


def _workspaces_with_their_own(settings: TargetSettings) -> Iterator[WorkspaceName]:
    """Workspaces that share the target's secret and address get no mailbox besides."""
    yield DEFAULT_WORKSPACE_NAME
    for name, own in settings.workspaces.items():
        if CREDENTIAL in own.credentials or RETURN_PATH_OPTION in own.options:
            yield WorkspaceName.parse(name)
