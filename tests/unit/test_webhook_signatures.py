"""Signatures of webhooks, against the specification's own example and against hmac by hand."""

import base64
import hashlib
import hmac

import pytest

from outrider.domain.errors import InvalidInput
from outrider.domain.webhook_signatures import signed_headers, signing_keys

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE, SENT_AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'


def by_hand(key: bytes) -> str:
    signed = hmac.new(key, b"%s.%d.%s" % (MESSAGE.encode(), SENT_AT, BODY), hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()


def test_the_specifications_example_has_the_specifications_signature() -> None:
    assert signed_headers(signing_keys(SECRET), MESSAGE, SENT_AT, BODY) == {
        "webhook-id": MESSAGE,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    assert by_hand(key) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_without_the_prefix_is_used_unchanged() -> None:
    secret = "a secret text of some length".replace(" ", "-")
    headers = signed_headers(signing_keys(secret), MESSAGE, SENT_AT, BODY)
    assert headers["webhook-signature"] == by_hand(secret.encode())


def test_while_a_secret_is_changed_both_sign() -> None:
    new = "another-secret-text-of-some-length"
    headers = signed_headers(signing_keys(f"{new}\n{SECRET}\n"), MESSAGE, SENT_AT, BODY)
    old_key = base64.b64decode(SECRET.removeprefix("whsec_"))
    assert headers["webhook-signature"].split() == [by_hand(new.encode()), by_hand(old_key)]


@pytest.mark.parametrize(
    "secret", ["", "  ", "short", "whsec_???", "whsec_c2hvcnQ=", "x" * 30 + " y"]
)
def test_a_secret_that_is_none_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        signing_keys(secret)
    assert not secret.strip() or secret not in refused.value.message
