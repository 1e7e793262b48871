"""The inbox of a machine without the database: receipts are posted to a server, signed.

A mail server's host needs only the URL of the server and the target's own secret.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec
from yarl import URL

from outrider.domain.errors import Overloaded
from outrider.domain.receipts import Receipt
from outrider.domain.webhook_signatures import signed_headers
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.http_client import HttpClient
from outrider.gateways.json_receipts import ReceiptDocument, ReceiptsDocument
from outrider.gateways.mail_receiver import ReturnMailbox
from outrider.gateways.receipt_reading import ReceiptSecret
from outrider.limits.gateways import POSTED_INBOX_SECONDS


class PostedInbox:
    def __init__(
        self,
        server_url: str,
        mailboxes: Sequence[ReturnMailbox],
        client: HttpClient,
        now: Callable[[], datetime],
    ) -> None:
        self._receipts_url = URL(server_url) / "receipts"
        self._client, self._now = client, now
        self._secrets: Mapping[tuple[str, str], ReceiptSecret] = {
            (str(mailbox.workspace), mailbox.submission_target): mailbox.secret
            for mailbox in mailboxes
        }

    async def take(
        self, workspace: str, submission_target: str, receipts: Sequence[Receipt]
    ) -> None:
        documents = [ReceiptDocument.of(receipt) for receipt in receipts]
        body = msgspec.json.encode(ReceiptsDocument(documents))
        keys = self._secrets[workspace, submission_target].keys()[:1]
        webhook_id = f"mail_{hashlib.sha256(body).hexdigest()[:32]}"
        headers = signed_headers(keys, webhook_id, int(self._now().timestamp()), body)
        url = self._receipts_url
        if workspace != str(DEFAULT_WORKSPACE_NAME):
            # One segment of the path, as the server reads it.
            url = url / workspace.replace("/", ":")
        answer = await self._client.post(
            url / submission_target,
            body,
            "application/json",
            headers=headers,
            timeout_seconds=POSTED_INBOX_SECONDS,
        )
        if not isinstance(answer, ReceivedAnswer) or not 200 <= answer.status < 300:
            outcome = (
                f"HTTP {answer.status}" if isinstance(answer, ReceivedAnswer) else repr(answer)
            )
            raise Overloaded(f"the server did not take a receipt: {outcome}", retry_after_seconds=1)
