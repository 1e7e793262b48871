"""Errors as the OpenAPI document shows them; `api/errors.py` makes them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from outrider.api.request_ids import HEADER


class FieldProblem(BaseModel):
    path: str
    message: str


class ErrorDetail(BaseModel):
    """Contract codes add more members, such as `current_state`."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(examples=["INVALID_REQUEST"])
    message: str
    hint: str | None = None
    fields: list[FieldProblem] = Field(default=[], description="Every problem at once.")


class ProblemAnswer(BaseModel):
    """RFC 9457's members around the contracts' envelope."""

    type: str = Field(examples=["about:blank"])
    title: str
    status: int
    detail: str
    error: ErrorDetail
    requestId: str
    success: Literal[False]


_REQUEST_ID = {HEADER: {"schema": {"type": "string"}, "required": True}}
_RETRY_AFTER = {"Retry-After": {"schema": {"type": "integer", "minimum": 0}, "required": True}}

DESCRIPTIONS = {
    400: "The request is invalid; `error.fields` lists every problem.",
    401: "The API key is missing or invalid.",
    403: "The key does not have the required scope.",
    404: "There is no such object in the key's workspace.",
    409: "The object's state does not allow this.",
    413: "The body is too large.",
    415: "The media type of the body is not supported.",
    422: "The idempotency key was already used for a different request.",
    429: "Too many requests with an invalid key came from this address.",
    500: "Internal error; the server's log has details under the same request ID.",
    503: "The server is temporarily unavailable.",
}


def _documented(status: int, description: str) -> dict[str, Any]:
    headers: dict[str, Any] = {**_REQUEST_ID}
    if status in (429, 503):
        headers |= _RETRY_AFTER
    if status == 401:
        headers["WWW-Authenticate"] = {"schema": {"type": "string"}, "required": True}
    return {
        "description": description,
        "headers": headers,
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}
        },
    }


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: _documented(status, description) for status, description in DESCRIPTIONS.items()
}
