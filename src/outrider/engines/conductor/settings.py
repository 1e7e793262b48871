"""What an operator sets for this engine: the `conductor_*` settings."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from outrider.domain.public_urls import is_private_way, server_url
from outrider.limits.engines import CONDUCTOR_WINDOW_JOBS, CONDUCTOR_WINDOW_JOBS_MAX
from outrider.plugins import only_a_reference

ConductorUrl = Annotated[str, AfterValidator(server_url)]
SecretReference = Annotated[str, AfterValidator(only_a_reference)]


class ConductorSettings(BaseModel):
    """How Conductor is reached, and how much of its work is done at once."""

    conductor_url: ConductorUrl = "http://127.0.0.1:8080"
    """The URL of Conductor's server."""
    conductor_domain: str = Field(default="outrider", min_length=1, max_length=100)
    """The task domain: only workers with the same one are given this deployment's work."""
    conductor_window_jobs: int = Field(
        default=CONDUCTOR_WINDOW_JOBS, ge=1, le=CONDUCTOR_WINDOW_JOBS_MAX
    )
    """How many jobs of one run workers may hold at once."""
    conductor_token: SecretReference | None = None
    """The access token for Conductor."""

    @model_validator(mode="after")
    def _conductor_is_reached_safely(self) -> Self:
        if self.conductor_token is not None and not is_private_way(self.conductor_url):
            raise ValueError("conductor_token would be sent unencrypted: use an https URL")
        return self
