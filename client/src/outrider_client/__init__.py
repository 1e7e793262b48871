"""The typed client of Outrider's API: `Client` here, `AsyncClient` in `outrider_client.aio`."""

from outrider_client.base import Page
from outrider_client.client import Client
from outrider_client.errors import (
    InvalidWebhook,
    OutriderError,
    Problem,
    Refused,
    Unauthorised,
    Unreachable,
)
from outrider_client.retries import NO_RETRIES, Retries

__all__ = [
    "NO_RETRIES",
    "Client",
    "InvalidWebhook",
    "OutriderError",
    "Page",
    "Problem",
    "Refused",
    "Retries",
    "Unauthorised",
    "Unreachable",
]
