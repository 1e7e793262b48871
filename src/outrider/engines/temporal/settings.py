"""What an operator sets for this engine: the `temporal_*` settings."""

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from outrider.limits.engines import TEMPORAL_WINDOW_JOBS, TEMPORAL_WINDOW_JOBS_MAX
from outrider.plugins import only_a_reference

HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
PORT_MAX = 65_535


def _host_and_port(text: str) -> str:
    found = HOST_AND_PORT.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= PORT_MAX:
        raise ValueError("should be HOST:PORT, without a scheme")
    return text


TemporalAddress = Annotated[str, AfterValidator(_host_and_port)]
SecretReference = Annotated[str, AfterValidator(only_a_reference)]


class TemporalSettings(BaseModel):
    """How Temporal is reached, and how much of its work is done at once."""

    temporal_address: TemporalAddress = "127.0.0.1:7233"
    """HOST:PORT of Temporal's frontend."""
    temporal_namespace: str = Field(default="default", min_length=1, max_length=255)
    """The namespace in Temporal."""
    temporal_task_queue: str = Field(default="outrider", min_length=1, max_length=200)
    """The task queue that this deployment's workers poll."""
    temporal_window_jobs: int = Field(
        default=TEMPORAL_WINDOW_JOBS, ge=1, le=TEMPORAL_WINDOW_JOBS_MAX
    )
    """How many jobs of one run workers may hold at once."""
    temporal_tls: bool = False
    """Whether to connect with TLS."""
    temporal_tls_ca: Path | None = None
    """The certificate authority of Temporal's certificate, as PEM."""
    temporal_tls_certificate: Path | None = None
    """This client's certificate, as PEM."""
    temporal_tls_key: Path | None = None
    """That certificate's private key."""
    temporal_tls_server_name: str | None = None
    """The name in Temporal's certificate, if it is not the host's."""
    temporal_api_key: SecretReference | None = None
    """An API key of Temporal Cloud."""
    temporal_codec_key: SecretReference | None = None
    """The key that encrypts Temporal's payloads."""

    @model_validator(mode="after")
    def _temporal_is_reached_safely(self) -> Self:
        if (self.temporal_tls_certificate is None) != (self.temporal_tls_key is None):
            raise ValueError("temporal_tls_certificate and temporal_tls_key must be set together")
        files = self.temporal_tls_ca or self.temporal_tls_certificate
        if not self.temporal_tls and (files or self.temporal_tls_server_name):
            raise ValueError("temporal_tls_* requires temporal_tls = true")
        if not self.temporal_tls and self.temporal_api_key is not None:
            raise ValueError("temporal_api_key would be sent unencrypted: set temporal_tls = true")
        return self
