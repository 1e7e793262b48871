"""Google's service accounts: an assertion, signed with the account's key, is exchanged for an
access token.

Source: https://developers.google.com/identity/protocols/oauth2/service-account#httprest
"""

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import msgspec

from outrider.domain.call_results import (
    UNAUTHORIZED,
    AttemptError,
    CallResult,
    Held,
    Progress,
    Throttled,
)
from outrider.domain.errors import InvalidInput
from outrider.gateways.access_tokens import AccessToken
from outrider.gateways.http import base_url, words_of
from outrider.limits.gateways import TOKEN_EXCHANGE_SECONDS

if TYPE_CHECKING:
    from outrider.gateways.http_client import HttpClient

GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_SECONDS: Final = 3_600
"""Google allows an hour at most."""
REFUSED: Final = frozenset({400, 401, 403})
BUSY: Final = frozenset({429, 503})


class ServiceAccount(msgspec.Struct, frozen=True):
    """The key file that Google's console creates, as far as it is needed."""

    client_email: str
    private_key: str
    private_key_id: str = ""
    token_uri: str = "https://oauth2.googleapis.com/token"

    def __repr__(self) -> str:
        return f"ServiceAccount({self.client_email})"


class _Answer(msgspec.Struct):
    access_token: str = ""
    expires_in: float = 0.0
    error: str = ""
    error_description: str = ""


_account = msgspec.json.Decoder(ServiceAccount)
_answer = msgspec.json.Decoder(_Answer)


def service_account(text: str) -> ServiceAccount:
    """InvalidInput: it is not a key file. The file itself is never quoted."""
    try:
        found = _account.decode(text)
    except msgspec.MsgspecError:
        raise InvalidInput(
            "the credential 'serviceAccount' is not a service account's key file",
            hint="it is the JSON file with client_email and private_key that Google creates",
        ) from None
    base_url(found.token_uri)
    return found


def assertion(account: ServiceAccount, scope: str, now: float) -> str:
    """Raises InvalidInput if the key cannot sign."""
    import jwt

    claims = {
        "iss": account.client_email,
        "scope": scope,
        "aud": account.token_uri,
        "iat": int(now),
        "exp": int(now) + ASSERTION_SECONDS,
    }
    headers = {"kid": account.private_key_id} if account.private_key_id else None
    try:
        return jwt.encode(claims, account.private_key, algorithm="RS256", headers=headers)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise InvalidInput("the private_key of 'serviceAccount' is not an RSA key") from None


async def exchange(
    client: "HttpClient", account: ServiceAccount, scope: str
) -> AccessToken | CallResult:
    """A token, or what stands in its way. No message was sent yet, whatever happens here."""
    try:
        signed = assertion(account, scope, time.time())
    except InvalidInput as error:
        return Held(UNAUTHORIZED, error.message)
    answer = await client.ask(
        "POST",
        base_url(account.token_uri),
        content=urlencode({"grant_type": GRANT, "assertion": signed}).encode(),
        content_type="application/x-www-form-urlencoded",
        timeout_seconds=TOKEN_EXCHANGE_SECONDS,
    )
    if isinstance(answer, AttemptError):
        return AttemptError(Progress.NOT_SENT, answer.code, f"no access token: {answer.detail}")
    try:
        found = _answer.decode(answer.body)
    except (msgspec.MsgspecError, RecursionError):
        found = _Answer()
    if 200 <= answer.status < 300 and found.access_token and found.expires_in > 0:
        return AccessToken(found.access_token, found.expires_in)
    said = f"{found.error} {found.error_description}".strip() or words_of(answer, quoted=False)
    if answer.status in BUSY:
        return Throttled(f"no access token: {said}", answer.retry_after_seconds)
    if answer.status in REFUSED and found.error:
        return Held(UNAUTHORIZED, f"no access token: {said}")
    return AttemptError(Progress.NOT_SENT, f"http_{answer.status}", f"no access token: {said}")
