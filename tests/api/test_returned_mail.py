"""`outrider receive-mail` beside a real server: who bounces is not written to again."""

import asyncio
import json
import smtplib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from pathlib import Path

from outrider.gateways.sandbox import ReceiptPlan, Sandbox
from outrider.testing.launches import target
from tests.support.api_server import ApiServer, running_server
from tests.support.eventually import eventually
from tests.support.receipt_targets import SECRET
from tests.support.receipt_witness import ReceiptWitness

TARGET, ADDRESS = "mail.main", "ada@example.test"
START_SECONDS = 60.0


@asynccontextmanager
async def receiving(folder: Path, server_url: str) -> AsyncIterator[tuple[str, int]]:
    """The command, as it runs on a mail server's host: it knows the target, and no database."""
    host_folder = folder / "mail-host"
    host_folder.mkdir()
    (host_folder / "outrider.toml").write_text(
        f'[targets."{TARGET}".options]\nreturnPath = "bounces@mail.example"\n'
        f'[targets."{TARGET}".credentials]\nreceiptsSecret = "file:{folder}/secret"\n'
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", "--server", server_url, "receive-mail",
        "--lmtp", "--port", "0", "--json",
        stdout=asyncio.subprocess.PIPE, cwd=host_folder,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            said = json.loads(await process.stdout.readline())
        host, _, port = said["receiving"].removeprefix("lmtp://").rpartition(":")
        yield host, int(port)
    finally:
        process.terminate()
        assert await process.wait() == 0


async def bounced_mail(server: ApiServer, witness: ReceiptWitness) -> bytes:
    """What a mail server sends back of a message that the server has just sent."""
    payload = {"to": ADDRESS, "subject": "Offer", "body": "Hi"}
    body = {"intentId": "i-1", "submissionTarget": TARGET, "payload": payload}
    await server.post("/intents", body)
    await eventually(lambda: witness.posts, what="the mail did not bounce")
    return witness.posts[0].body


async def test_a_bounce_that_the_command_takes_suppresses_its_address_at_the_server(
    tmp_path: Path,
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    settings = {
        TARGET: {
            "options": {"from": "News <news@mail.example>", "returnPath": "bounces@mail.example"},
            "credentials": {"receiptsSecret": f"file:{tmp_path}/secret"},
        }
    }
    async with (
        ReceiptWitness() as witness,
        Sandbox(receipts=ReceiptPlan(witness.url, SECRET, bounce_rate=1.0)) as provider,
        running_server(
            tmp_path,
            targets=(target(TARGET, "smtp", provider.smtp_url),),
            environment={"OUTRIDER_TARGETS": json.dumps(settings)},
        ) as server,
        receiving(tmp_path, server.url) as (host, port),
    ):
        mail = await bounced_mail(server, witness)
        returned_to = str(message_from_bytes(mail)["To"])
        assert returned_to.startswith("bounces+")
        assert (await server.get("/suppressions"))["items"] == []

        def hand_over() -> None:
            with smtplib.LMTP(host, port) as client:
                assert client.sendmail("", [returned_to], mail) == {}

        await asyncio.to_thread(hand_over)
        # The mail server was told 250: by then the receipt was durable.
        [receipt] = (await server.get("/receipts"))["items"]
        assert (receipt["event"], receipt["permanent"]) == ("bounced", True)

        async def is_suppressed() -> bool:
            return bool((await server.get("/suppressions"))["items"])

        await eventually(is_suppressed, what="the bounce suppressed nobody")
        [found] = (await server.get("/suppressions"))["items"]
        assert (found["channel"], found["address"]) == ("email", ADDRESS)
        assert (found["source"], found["evidence"]) == ("bounce", f"receipt {receipt['id']}")
        [matched] = (await server.get("/receipts?matched=true"))["items"]
        sent = await server.get("/intents/i-1")
        assert matched["outboxId"] == sent["outboxId"]
