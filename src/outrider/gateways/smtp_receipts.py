"""Receipts of `smtp`: a returned mail, posted raw, or our own JSON; both signed by the poster per
Standard Webhooks.

`outrider receive-mail` reads the same mails unsigned (mail_receiver.py); there only a return path
with a token of ours is trusted.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from outrider.domain.receipts import Receipt
from outrider.domain.return_paths import ReturnPath
from outrider.domain.webhook_signatures import signing_keys
from outrider.gateways.family import Target
from outrider.gateways.json_receipts import CREDENTIAL, StandardReader, read_document
from outrider.gateways.mail_reports import read_mail
from outrider.gateways.receipt_reading import Malformed, ReceiptSecret
from outrider.ports.receipts import Callback

MAIL_TYPE: Final = "message/rfc822"
RETURN_PATH_OPTION: Final = "returnPath"


class SmtpReader(StandardReader):
    def __init__(self, secret: ReceiptSecret, return_path: ReturnPath | None) -> None:
        super().__init__(secret)
        self._return_path = return_path

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        kind = _content_type(callback.headers)
        if kind == "application/json":
            return read_document(callback.body)
        if kind == MAIL_TYPE:
            return self._of_mail(callback.body)
        raise Malformed(f"the content type is neither {MAIL_TYPE} nor application/json")

    def _of_mail(self, raw: bytes) -> Iterator[Receipt]:
        if b":" not in raw.partition(b"\n")[0]:
            raise Malformed("the body does not begin with a header")
        mail = read_mail(raw)
        reference = None
        if self._return_path is not None:
            keys = self._secret.keys()
            found = (self._return_path.reference_in(keys, each) for each in mail.addresses)
            reference = next(filter(None, found), None)
        yield from mail.unproved() if reference is None else mail.proved(reference)


def _content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def return_path_of(target: Target) -> ReturnPath | None:
    given = target.settings.options.get(RETURN_PATH_OPTION)
    return None if given is None else ReturnPath.parse(given)


def receipt_reader(target: Target) -> SmtpReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    secret = ReceiptSecret(target, CREDENTIAL, signing_keys)
    return SmtpReader(secret, return_path_of(target))
