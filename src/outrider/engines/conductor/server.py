"""Conductor's HTTP interface, as far as it is used: plain requests through Outrider's own client.

The calls are few and their payloads are ours, so Conductor's Python client would add a second HTTP
stack, its threads and its retries, and take nothing away.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import structlog
from yarl import URL

from outrider.domain.call_results import AttemptError, Progress
from outrider.domain.errors import EngineUnavailable, InvalidInput
from outrider.engines.conductor.definitions import task_definitions, workflow_definition
from outrider.engines.conductor.messages import (
    PARKED_REFERENCE,
    VERSION,
    WORKFLOW,
    Execution,
    TaskRecord,
    WorkOrder,
)
from outrider.limits.engines import CONDUCTOR_ANSWER_MAX_BYTES, CONDUCTOR_TIMEOUT_SECONDS
from outrider.limits.gateways import CREDENTIAL_REREAD_SECONDS
from outrider.ports.http import HttpMaker
from outrider.ports.secrets import SecretStore, own_secret
from outrider.settings import Settings

log = structlog.get_logger()

API = "api"
OK_MOST = 299
NOT_FOUND = 404
CONFLICT = 409
UNAUTHORISED = (401, 403)
MILLISECONDS = 1_000

Document = TypeVar("Document")


class ConductorServer:
    """Connections are opened on first use; the token is re-read periodically."""

    def __init__(
        self, settings: Settings, secrets: SecretStore, identity: str, http: HttpMaker
    ) -> None:
        url = URL(settings.conductor_url)
        self._address = str(url)
        self._base = url if url.name == API else url / API
        self._token_reference = settings.conductor_token
        self._secrets = secrets
        self._identity = identity
        self._http = http(
            timeout_seconds=CONDUCTOR_TIMEOUT_SECONDS, answer_max_bytes=CONDUCTOR_ANSWER_MAX_BYTES
        )
        self._headers: dict[str, str] = {}
        self._token_read_at: float | None = None

    async def is_registered(self) -> bool:
        """Whether it has this release's workflow; also whether it answers at all."""
        found = await self._ask(
            "GET", f"metadata/workflow/{WORKFLOW}", {"version": str(VERSION)}, missing=b""
        )
        return bool(found)

    async def register(self) -> list[str]:
        """Repeating it changes nothing. Definitions of other versions are left alone."""
        tasks = task_definitions()
        await self._ask("POST", "metadata/taskdefs", document=tasks)
        await self._ask("PUT", "metadata/workflow", document=[workflow_definition()])
        return [f"{WORKFLOW} {VERSION}", *(task["name"] for task in tasks)]

    async def start(self, correlation: str, order: WorkOrder, domains: Mapping[str, str]) -> str:
        """The new execution's id. A server that lost its definitions is given them again."""
        document = {
            "name": WORKFLOW,
            "version": VERSION,
            "correlationId": correlation,
            "input": msgspec.to_builtins(order),
            "taskToDomain": domains,
        }
        started = await self._ask("POST", "workflow", document=document, missing=b"")
        if not started:
            await self.register()
            started = await self._ask("POST", "workflow", document=document)
        return started.decode()

    async def running(
        self, correlations: Sequence[str], *, tasks: bool
    ) -> dict[str, list[Execution]]:
        """Those not ended, by correlation id, the oldest first."""
        query = {"includeClosed": "false", "includeTasks": str(tasks).lower()}
        wanted = sorted(set(correlations))
        answer = await self._ask(
            "POST", f"workflow/{WORKFLOW}/correlated", query, wanted, missing=b"{}"
        )
        found = _read(answer, dict[str, list[Execution]])
        return {
            name: sorted(each, key=lambda one: (one.create_time, one.workflow_id))
            for name, each in found.items()
        }

    async def wake(self, execution: Execution) -> None:
        """End its wait; it may have ended by itself meanwhile."""
        path = f"tasks/{execution.workflow_id}/{PARKED_REFERENCE}/COMPLETED"
        await self._ask("POST", path, document={}, missing=b"")

    async def terminate(self, execution: Execution, reason: str) -> None:
        path, query = f"workflow/{execution.workflow_id}", {"reason": reason}
        await self._ask("DELETE", path, query, missing=b"")

    async def resume(self, execution: Execution) -> None:
        await self._ask("PUT", f"workflow/{execution.workflow_id}/resume", missing=b"")

    async def decide(self, execution: Execution) -> None:
        """Have it notice now what timed out, instead of at its next sweep."""
        await self._ask("PUT", f"workflow/decide/{execution.workflow_id}", missing=b"")

    async def polled_at(self, task_type: str, domain: str | None) -> int:
        """When somebody last polled for it, in milliseconds of Conductor's clock; 0: never."""
        answer = await self._ask("GET", "tasks/queue/polldata", {"taskType": task_type})
        found = _read(answer, list[dict[str, Any]])
        times = (each.get("lastPollTime", 0) for each in found if each.get("domain") == domain)
        return max(times, default=0)

    async def poll(
        self, task_type: str, domain: str, most: int, seconds: float
    ) -> list[TaskRecord]:
        """Conductor waits for as many as are asked for: to wait, ask for one."""
        query = {
            "count": str(most),
            "timeout": str(int(seconds * MILLISECONDS)),
            "workerid": self._identity,
            "domain": domain,
        }
        answer = await self._ask("GET", f"tasks/poll/batch/{task_type}", query)
        return _read(answer or b"[]", list[TaskRecord])

    async def complete(self, task: TaskRecord, output: Mapping[str, Any]) -> None:
        await self._update(task, "COMPLETED", outputData=output)

    async def give_back(self, task: TaskRecord, seconds: int, why: str | None = None) -> None:
        """Have it offered again then: the same task, so that the execution does not grow."""
        await self._update(
            task, "IN_PROGRESS", callbackAfterSeconds=seconds, reasonForIncompletion=why
        )

    async def extend(self, task: TaskRecord) -> None:
        await self._update(task, "IN_PROGRESS", extendLease=True)

    async def close(self) -> None:
        await self._http.close()

    async def _update(self, task: TaskRecord, status: str, **others: object) -> None:
        """Conductor ignores it if the task has ended, or is another worker's under a new id."""
        document = {
            "taskId": task.task_id,
            "workflowInstanceId": task.workflow_instance_id,
            "workerId": self._identity,
            "status": status,
            **others,
        }
        await self._ask("POST", "tasks", document=document, missing=b"")

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        document: object = None,
        missing: bytes | None = None,
    ) -> bytes:
        """The answer's body; `missing` instead if Conductor does not know what was asked for, or
        it has ended."""
        url = (self._base / path).with_query(query)
        content = b"" if document is None else msgspec.json.encode(document)
        headers = self._authorised()
        for is_last in (False, True):
            answer = await self._http.ask(method, url, headers=headers, content=content)
            if not isinstance(answer, AttemptError):
                break
            # Nothing of it arrived, or asking twice changes nothing: the connection was stale.
            if is_last or not (answer.progress is Progress.NOT_SENT or method == "GET"):
                raise self._unreachable(answer)
            if answer.code == "connect_failed":
                raise self._unreachable(answer)
        assert not isinstance(answer, AttemptError)
        if answer.status <= OK_MOST:
            return answer.body
        if answer.status in (NOT_FOUND, CONFLICT) and missing is not None:
            return missing
        raise self._refused(answer.status)

    def _unreachable(self, error: AttemptError) -> EngineUnavailable:
        return EngineUnavailable(
            f"no Conductor server answers at {self._address}: {error.detail or error.code}",
            hint="start one, or set OUTRIDER_CONDUCTOR_URL",
        )

    def _refused(self, status: int) -> EngineUnavailable:
        hint = "check OUTRIDER_CONDUCTOR_TOKEN" if status in UNAUTHORISED else "see its log"
        return EngineUnavailable(
            f"Conductor at {self._address} answered with HTTP {status}", hint=hint
        )

    def _authorised(self) -> Mapping[str, str]:
        """Conductor's own clients send the first of these, proxies in front of it expect the
        second. A missing token may be in the middle of a rotation."""
        if self._token_reference is None:
            return self._headers
        now = time.monotonic()
        if self._token_read_at is None or now >= self._token_read_at + CREDENTIAL_REREAD_SECONDS:
            try:
                token = own_secret(self._secrets, self._token_reference)
            except InvalidInput as error:
                if not self._headers:
                    raise
                log.warning("conductor_token_not_read", error=error.message)
            else:
                self._headers = {"X-Authorization": token, "Authorization": f"Bearer {token}"}
            self._token_read_at = now
        return self._headers


def _read(answer: bytes, kind: type[Document]) -> Document:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError as error:
        # A proxy's page, or another system at this address.
        raise EngineUnavailable(
            "what answers for Conductor does not answer as Conductor does",
            hint="check OUTRIDER_CONDUCTOR_URL",
        ) from error
