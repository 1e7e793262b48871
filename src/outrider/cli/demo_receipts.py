"""The demo's way back: its simulators report what became of each message to its own server.

Some messages bounce and some people reply STOP. The reports come late, some twice and some out of
order, and still every message that was sent is counted once.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from outrider.bootstrap import Outrider
from outrider.cli.demo_campaign import MAIL_TARGET
from outrider.cli.demo_children import child, ready_line
from outrider.cli.demo_temporal import HOST, free_port
from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.ids import RunId
from outrider.gateways.json_receipts import CREDENTIAL
from outrider.gateways.smtp_receipts import RETURN_PATH_OPTION
from outrider.kernel.transactions import deliveries
from outrider.settings import Settings, TargetSettings

BOUNCE_RATE, STOP_RATE, REPEAT_RATE, REORDER_RATE = 0.02, 0.01, 0.1, 0.1
DELAY_MS = 200
RETURN_PATH = "bounces@demo.example.test"
REPORTED_SECONDS = 20.0
"""The demo waits no longer for its last receipts, and counts what has come."""
LOOK_SECONDS = 0.1


class WayBack:
    """Where the simulators post to, and with which secret."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self._secret = folder / "receipts-secret"
        self._secret.write_text(f"whsec_{base64.b64encode(os.urandom(32)).decode()}")

    def sandbox_arguments(self) -> list[str]:
        door = f"http://{HOST}:{self._port}/receipts/{{type}}.realtime"
        return [
            "--receipts-to", door, "--receipts-secret-file", str(self._secret),
            "--bounce-rate", str(BOUNCE_RATE), "--stop-rate", str(STOP_RATE),
            "--receipt-repeat-rate", str(REPEAT_RATE),
            "--receipt-reorder-rate", str(REORDER_RATE), "--receipt-delay-ms", str(DELAY_MS),
        ]  # fmt: skip

    def reporting(self, targets: Mapping[str, TargetSettings]) -> dict[str, TargetSettings]:
        """The demo's targets, so that they take receipts."""
        secret = {CREDENTIAL: f"file:{self._secret}"}
        every = {MAIL_TARGET: TargetSettings(), **targets}
        return {
            name: each.model_copy(
                update={
                    "credentials": {**each.credentials, **secret},
                    "options": {**each.options, **_return_path(name)},
                }
            )
            for name, each in every.items()
        }

    @asynccontextmanager
    async def server(self, settings: Settings) -> AsyncIterator[None]:
        arguments = ("serve", "--port", str(self._port), "--workers", "0", "--json")
        async with child(*arguments, settings=settings) as process:
            await ready_line(process)
            yield


def _return_path(target: str) -> dict[str, str]:
    return {RETURN_PATH_OPTION: RETURN_PATH} if target == MAIL_TARGET else {}


async def reported(outrider: Outrider, run_id: RunId, sent: int) -> DeliveryCounts:
    """What became of the messages that were sent, once each has a receipt or the time is up."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        found = await outrider.store.read(deliveries.of_run(run_id))
        counts = DeliveryCounts.of(found, sent)
        if not counts.unknown or loop.time() - began > REPORTED_SECONDS:
            return counts
        await asyncio.sleep(LOOK_SECONDS)
