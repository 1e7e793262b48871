"""Every error as one response: RFC 9457's problem details around the contracts' error envelope.

Errors the kernel raises on purpose are shown; unexpected ones are only logged.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from outrider.api.failures import log_failure
from outrider.api.outage_alert import answer_without_database
from outrider.api.request_ids import request_id
from outrider.documents import json_path
from outrider.domain.blocker_words import database_down
from outrider.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    InvalidTransition,
    NotFound,
    OutriderError,
    Overloaded,
    Problem,
    SchemaMismatch,
    StoreUnavailable,
)
from outrider.domain.times import rfc3339
from outrider.limits.api import ApiLimits
from outrider.limits.campaigns import PROBLEMS_SHOWN_MAX

log = structlog.get_logger()

PROBLEM_TYPE = "application/problem+json"
INTERNAL = "INTERNAL_ERROR"


class ApiError(Exception):
    """Errors specific to the HTTP surface."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.hint, self.headers = hint, headers


def problem(
    status: int,
    code: str,
    message: str,
    *,
    details: Mapping[str, object] | None = None,
    fields: Sequence[Problem] = (),
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    error: dict[str, object] = {"code": code, "message": message, **(details or {})}
    if fields:
        error["fields"] = [{"path": each.path, "message": each.message} for each in fields]
    if hint:
        error["hint"] = hint
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": message,
        "error": error,
        "requestId": request_id(),
        "success": False,
    }
    return Response(
        msgspec.json.encode(_encodable(document)), status, headers, media_type=PROBLEM_TYPE
    )


def answer_to(error: Exception, down_since: datetime | None = None) -> Response | None:
    """The response to an expected error; None for any other. `down_since`: since when the database
    has not answered, if it does not."""
    match error:
        case ApiError():
            return problem(
                error.status, error.code, error.message, hint=error.hint, headers=error.headers
            )
        case OutriderError():
            return _kernel_error(error, down_since)
        case RequestValidationError():
            found = [_field(each) for each in error.errors()]
            shown = found[:PROBLEMS_SHOWN_MAX]
            return problem(400, InvalidInput.code, f"the request has {_count(found)}", fields=shown)
        case HTTPException():
            return _framework_error(error)
        case _:
            return None


def unforeseen() -> Response:
    """Nothing from the error itself: it may contain anything. The log has it, under the same id."""
    return problem(500, INTERNAL, "an internal error occurred; see the server's log")


def answer_in(request: Request, error: Exception) -> Response | None:
    """The response to an expected error of this request; None for any other."""
    since = _down_since(request, error)
    return answer_without_database(request, error, since) or answer_to(error, since)


def install(app: FastAPI, methods_of: Callable[[str], list[str]]) -> None:
    """`methods_of` a path: the framework only knows those of the first route that it tried."""

    async def answer(request: Request, error: Exception) -> Response:
        response = answer_in(request, error) or unforeseen()
        if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = ", ".join(methods_of(request.url.path))
        return response

    for kind in (ApiError, OutriderError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)


def _kernel_error(error: OutriderError, down_since: datetime | None) -> Response:
    retry = {"Retry-After": str(ApiLimits.retry_after_seconds)}
    match error:
        case InvalidInput():
            return problem(400, error.code, error.message, fields=error.problems, hint=error.hint)
        case NotFound():
            return problem(404, error.code, error.message, hint=error.hint)
        case Forbidden():
            return problem(403, error.code, error.message, details=error.details)
        case Overloaded():
            wait = {"Retry-After": str(error.retry_after_seconds)}
            return problem(429, error.code, error.message, hint=error.hint, headers=wait)
        case Conflict() | InvalidTransition():
            return problem(409, error.code, error.message, details=error.details, hint=error.hint)
        case StoreUnavailable():
            # A driver's message may name hosts and files: it is for the log.
            log.error("store_unavailable", error=error.message)
            return problem(
                503, error.code, "the database is unavailable",
                details={"blockers": [_database_blocker(down_since)]} if down_since else None,
                headers=retry,
            )  # fmt: skip
        case SchemaMismatch():
            log.error("schema_mismatch", error=error.message)
            return problem(
                503, error.code, "the database schema does not match this server",
                hint="run `outrider migrate`", headers=retry,
            )  # fmt: skip
        case _:
            log_failure(error)
            return unforeseen()


def _down_since(request: Request, error: Exception) -> datetime | None:
    """As this server's watcher has seen it; a request may be the first to find out."""
    if not isinstance(error, StoreUnavailable):
        return None
    services = getattr(request.app.state, "services", None)
    if services is None:
        return None
    since: datetime | None = services.outrider.watcher.outage.since
    return since or services.outrider.clock.now()


def _database_blocker(since: datetime) -> dict[str, object]:
    blocker = database_down(since)
    return {
        "code": blocker.code.value,
        "since": rfc3339(blocker.since),
        "message": blocker.message,
        "hint": blocker.hint,
        "submissionTarget": None,
    }


def _framework_error(error: HTTPException) -> Response:
    status = error.status_code
    code = {
        400: InvalidInput.code, 404: NotFound.code, 405: "METHOD_NOT_ALLOWED",
    }.get(status, HTTPStatus(status).name)  # fmt: skip
    message = {
        404: "nothing was found at this path",
        405: "this path does not support this method",
    }.get(status, str(error.detail))
    return problem(status, code, message, headers=error.headers)


def _field(detail: Mapping[str, Any]) -> Problem:
    place, *location = detail["loc"]
    if detail["type"] != "extra_forbidden" and place == "body":
        # Pydantic names a missing field as Python does, not as users write it.
        location = [_written(step) if isinstance(step, str) else step for step in location]
    message = {
        "missing": "is required",
        "extra_forbidden": "is not a known field",
        "model_type": "should be an object",
        "model_attributes_type": "should be an object",
    }.get(detail["type"], str(detail["msg"]).replace("Input should", "should"))
    return Problem(json_path(location), message.removeprefix("Value error, "))


def _written(step: str) -> str:
    return step if step == "expected_state" else to_camel(step)


def _count(found: Sequence[Problem]) -> str:
    return "a problem" if len(found) == 1 else f"{len(found)} problems"


def _encodable(value: Any) -> Any:
    """Untrusted text may hold lone surrogates, which JSON cannot: they are escaped."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(inner) for inner in value]
    return value
