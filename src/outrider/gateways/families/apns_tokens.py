"""The tokens by which Apple knows who sends: signed by ourselves, and renewed neither too late nor
too often.

Source: https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
"""

import time
from typing import Any, Final

from outrider.domain.call_results import UNAUTHORIZED, CallResult, Held
from outrider.domain.errors import InvalidInput
from outrider.gateways.access_tokens import AccessToken
from outrider.gateways.families.vapid_keys import signing_key

TOKEN_SECONDS: Final = 3_000.0
"""Apple refuses a token after an hour; it is renewed some minutes before this."""
TOKEN_MIN_SECONDS: Final = 1_200.0
"""A new one more often than every 20 minutes is TooManyProviderTokenUpdates."""


def signed(team_id: str, key_id: str, private_key: str) -> AccessToken | CallResult:
    import jwt

    try:
        key = signing_key(private_key)
    except InvalidInput as error:
        return Held(UNAUTHORIZED, error.message)
    claims = {"iss": team_id, "iat": int(time.time())}
    token = jwt.encode(claims, key, algorithm="ES256", headers={"kid": key_id})
    return AccessToken(token, TOKEN_SECONDS)


def is_replaceable(token: str) -> bool:
    """Apple allows no younger one to be replaced, so a refusal of such a token is about the key."""
    import jwt

    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return time.time() - float(claims["iat"]) >= TOKEN_MIN_SECONDS
