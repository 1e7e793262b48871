"""Signatures of requests to AWS, version 4: HMAC-SHA256 over the request, under a key of the day.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from yarl import URL

ALGORITHM: Final = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"


@dataclass(frozen=True, slots=True)
class AwsKey:
    key_id: str
    secret: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def signed_headers(
    key: AwsKey, region: str, service: str, method: str, url: URL, body: bytes, at: datetime
) -> dict[str, str]:
    """The headers to add to the request, which is sent with no others that AWS has to check."""
    time = at.strftime("%Y%m%dT%H%M%SZ")
    headers = {"X-Amz-Date": time}
    if key.session_token is not None:
        headers["X-Amz-Security-Token"] = key.session_token
    host = {"host": url.host_port_subcomponent or ""}
    checked = host | {name.lower(): value for name, value in headers.items()}
    names = ";".join(sorted(checked))
    canonical = "\n".join(
        [
            method,
            # Every service but S3 encodes the path twice: once on the line, and once here.
            quote(url.raw_path or "/", safe=f"/{_UNRESERVED}"),
            _query(url),
            *(f"{name}:{checked[name].strip()}" for name in sorted(checked)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{time[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([ALGORITHM, time, scope, digest])
    day_key = _day_key(key.secret, time[:8], region, service)
    signature = hmac.digest(day_key, text.encode(), "sha256").hex()
    credential = f"Credential={key.key_id}/{scope}"
    headers["Authorization"] = (
        f"{ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def _query(url: URL) -> str:
    pairs = sorted(
        (quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED))
        for name, value in url.query.items()
    )
    return "&".join(f"{name}={value}" for name, value in pairs)


@lru_cache(8)
def _day_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
