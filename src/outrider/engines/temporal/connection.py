"""The connection to a Temporal server: address, namespace, TLS, API key and codec from settings."""

import asyncio
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path

import structlog
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    default,
)
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from outrider.domain.errors import EngineUnavailable, InvalidInput
from outrider.limits.engines import TEMPORAL_CONNECT_SECONDS
from outrider.limits.gateways import CREDENTIAL_REREAD_SECONDS, ERROR_DETAIL_MAX_CHARACTERS
from outrider.ports.secrets import SecretStore, own_secret
from outrider.settings import Settings
from outrider.telemetry import bridge_library_logs

LIBRARY = "temporalio"


log = structlog.get_logger()


class TemporalConnection:
    """Opened on first use and then kept; its API key is re-read periodically."""

    def __init__(self, settings: Settings, secrets: SecretStore, identity: str) -> None:
        self._settings = settings
        self._secrets = secrets
        self._identity = identity
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._key_read_at = 0.0

    async def client(self) -> Client:
        """Raises EngineUnavailable if there is no answer, InvalidInput if a setting is wrong."""
        async with self._connecting:
            if self._client is None:
                self._client = await self._connect()
                self._key_read_at = time.monotonic()
            elif time.monotonic() >= self._key_read_at + CREDENTIAL_REREAD_SECONDS:
                self._key_read_at = time.monotonic()
                self._renew_key(self._client)
            return self._client

    async def reach(self) -> Client:
        """The same, after verifying that a worker could start with it."""
        client = await self.client()
        asked = DescribeNamespaceRequest(namespace=client.namespace)
        with unavailable():
            try:
                await client.workflow_service.describe_namespace(asked)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                raise EngineUnavailable(
                    f"Temporal has no namespace '{client.namespace}'",
                    hint="run `temporal operator namespace create`, or set"
                    " OUTRIDER_TEMPORAL_NAMESPACE",
                ) from error
        return client

    def _renew_key(self, client: Client) -> None:
        """Also for the worker that uses this client. A missing key may be in the middle of a
        rotation, and the previous one may still be valid."""
        reference = self._settings.temporal_api_key
        if reference is None:
            return
        try:
            key = own_secret(self._secrets, reference)
        except InvalidInput as error:
            log.warning("temporal_api_key_not_read", error=error.message)
            return
        if key != client.api_key:
            client.api_key = key

    async def _connect(self) -> Client:
        settings = self._settings
        api_key = settings.temporal_api_key
        try:
            return await Client.connect(
                settings.temporal_address,
                namespace=settings.temporal_namespace,
                api_key=None if api_key is None else own_secret(self._secrets, api_key),
                data_converter=self._converter(),
                tls=self._tls(),
                identity=self._identity,
                connect_timeout=timedelta(seconds=TEMPORAL_CONNECT_SECONDS),
                runtime=_runtime(),
            )
        except ValueError as error:
            raise InvalidInput(
                f"Temporal cannot be reached at '{settings.temporal_address}': {error}",
                hint="set OUTRIDER_TEMPORAL_ADDRESS to HOST:PORT",
            ) from error
        except (RPCError, RuntimeError) as error:
            raise EngineUnavailable(
                f"no Temporal server answers at {settings.temporal_address}: {_reason(str(error))}",
                hint=(
                    "check OUTRIDER_TEMPORAL_ADDRESS and OUTRIDER_TEMPORAL_TLS*"
                    if settings.temporal_tls
                    else "start one with `temporal server start-dev`, or set OUTRIDER_TEMPORAL_*"
                ),
            ) from error

    def _converter(self) -> DataConverter:
        reference = self._settings.temporal_codec_key
        if reference is None:
            return default()
        from outrider.engines.temporal.codec import codec_of

        return DataConverter(
            payload_codec=codec_of(own_secret(self._secrets, reference)),
            failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
        )

    def _tls(self) -> TLSConfig | bool:
        settings = self._settings
        if not settings.temporal_tls:
            return False
        return TLSConfig(
            server_root_ca_cert=_read(settings.temporal_tls_ca),
            domain=settings.temporal_tls_server_name,
            client_cert=_read(settings.temporal_tls_certificate),
            client_private_key=_read(settings.temporal_tls_key),
        )


@contextmanager
def unavailable() -> Iterator[None]:
    """Any failure of Temporal is one kind of error to the caller."""
    try:
        yield
    except* RPCError as group:
        raise EngineUnavailable(f"Temporal: {_first(group)}") from group


def _first(group: BaseExceptionGroup[RPCError]) -> RPCError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


@cache
def _runtime() -> Runtime:
    """Once per process. The Temporal library's log lines are formatted like our own."""
    bridge_library_logs([LIBRARY])
    logging_of_core = LoggingConfig(
        TelemetryFilter(core_level="WARN", other_level="ERROR"),
        forwarding=LogForwardingConfig(logging.getLogger(LIBRARY), append_target_to_name=False),
    )
    return Runtime(telemetry=TelemetryConfig(logging=logging_of_core))


def _reason(text: str) -> str:
    """The innermost error the library nests, as in `error: InvalidCertificate(UnknownIssuer)`."""
    found = re.findall(r'(?:message|error): "?([^"{}]+)', text)
    return (found[-1] if found else text).strip()[:ERROR_DETAIL_MAX_CHARACTERS]


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}", hint="check OUTRIDER_TEMPORAL_TLS_*"
        ) from error
