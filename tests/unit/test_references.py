"""References to secrets, and the guard that refuses values where references belong."""

import pytest

from outrider.domain.errors import InvalidInput
from outrider.domain.references import SHOWN_MAX, is_reference, names_a_secret, refuse_secrets

VALUE = "hunter2-7f3a9c"


@pytest.mark.parametrize("text", ["env:A", "env:_a9", "file:/run/secrets/x", "file:a b", "file:x"])
def test_a_scheme_and_a_name_are_a_reference(text: str) -> None:
    assert is_reference(text)


@pytest.mark.parametrize(
    "text",
    ["", VALUE, "env:", "file:", "env", ":x", "env:9a", "env:a-b", "env:a\n", "file:\0",
     "file:a\nb", "vault:x", "ENV:A", " env:A", "https://x", "env :A"],
)  # fmt: skip
def test_anything_else_is_none(text: str) -> None:
    assert not is_reference(text)


def test_a_registered_scheme_makes_references_too() -> None:
    assert is_reference("vault:kv/mail#key", {"env", "vault"})
    assert not is_reference("vault:", {"vault"})
    assert not is_reference("vault:a b", {"vault"})
    assert not is_reference("file:x", {"vault"})


@pytest.mark.parametrize(
    "key",
    ["password", "PASSWORD", "smtpPassword", "db_password", "secret", "clientSecret", "token",
     "authToken", "access-token", "apiKey", "API_KEY", "x-api-key", "apikey", "authorization",
     "Authorization", "privateKey", "credentials", "passphrase", "AWSSecretAccessKey",
     "signing_key", "set-cookie"],
)  # fmt: skip
def test_names_of_secrets(key: str) -> None:
    assert names_a_secret(key)


@pytest.mark.parametrize(
    "key",
    ["", "key", "idempotencyKey", "tokens", "passwordless", "secretary", "pushToken", "push_token",
     "first", "runId", "passwords_checked", "secretCount", "tokenCount", "keyboard"],
)  # fmt: skip
def test_names_of_anything_else(key: str) -> None:
    assert not names_a_secret(key)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"password": VALUE}, "password"),
        ({"a": {"b": [{"apiKey": VALUE}]}}, "a.b[0].apiKey"),
        ({"credentials": {"user": VALUE}}, "credentials.user"),
        ({"token": ["env:A", VALUE]}, "token[1]"),
        ({"secret": 1234}, "secret"),
        ({"secret": True}, "secret"),
        ({"secret": ""}, "secret"),
        ({"url": f"https://user:{VALUE}@host/"}, "url"),
        ({"url": f"postgresql://:{VALUE}@host/db"}, "url"),
        ({"header": f"Bearer {VALUE}"}, "header"),
        ({"header": "Basic dXNlcjpodW50ZXIyNzdmM2E5Yw=="}, "header"),
        ({"pem": f"-----BEGIN RSA PRIVATE KEY-----\n{VALUE}"}, "pem"),
        ([{"password": VALUE}], "[0].password"),
    ],
)
def test_a_value_is_refused_by_its_path_and_never_repeated(document: object, path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        refuse_secrets(document, "the plan")
    assert [problem.path for problem in refused.value.problems] == [path]
    told = f"{refused.value} {refused.value.problems} {refused.value.hint}"
    assert told.startswith("the plan contains a secret: ")
    assert VALUE not in told


@pytest.mark.parametrize(
    "document",
    [
        {},
        None,
        {"password": "env:SMTP_PASSWORD", "token": "file:/run/secrets/token", "secret": None},
        {"credentials": {"a": "env:A", "b": ["env:B"]}},
        {
            "text": "the password is not here",
            "url": "https://host/path@x",
            "note": "bearer of news",
        },
        {"mail": "mailto:a@b.test", "at": "2026-01-01T10:00:00Z", "count": 3},
        {"first": 0, "last": 499, "links": ["https://example.test/?a=b"]},
    ],
)
def test_documents_with_references_or_without_secrets_pass(document: object) -> None:
    refuse_secrets(document, "the plan")


def test_a_registered_scheme_is_a_reference_where_it_is_known() -> None:
    refuse_secrets({"apiKey": "vault:mail"}, "the plan", {"env", "vault"})
    with pytest.raises(InvalidInput):
        refuse_secrets({"apiKey": "vault:mail"}, "the plan")


def test_of_very_many_mistakes_the_first_are_reported() -> None:
    with pytest.raises(InvalidInput) as refused:
        refuse_secrets({"token": [VALUE] * 1_000}, "the plan")
    assert len(refused.value.problems) == SHOWN_MAX
