"""`outrider demo`: a launch on a throw-away SQLite that loses its worker to SIGKILL midway.

Everything is real but the providers: sockets, processes, the kill, and the simulators' own log,
which is the witness that nothing was lost and nothing arrived twice.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import uvloop

from outrider.bootstrap import Outrider, open_outrider
from outrider.cli.console import Json, accounting_line, err, fail, out, print_json, print_rows
from outrider.cli.doubts import references_in
from outrider.cli.run import print_certificate
from outrider.cli.watching import watch
from outrider.domain.campaigns import LAUNCH, CampaignDefinition, Message
from outrider.domain.errors import OutriderError
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.gateways.sandbox import references_delivered
from outrider.kernel.certifier import Certificate
from outrider.kernel.doubt_resolver import Reconciliation
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.inspection import RunRecord
from outrider.settings import Settings
from outrider.telemetry import configure_logging

RECIPIENTS_DEFAULT = 2_000
BATCH_SIZE = 200
LATENCY_MS = 2
KILL_AT_SHARE = 0.4
START_SECONDS = 20.0
STOP_SECONDS = 30.0
ACTOR = "demo"

MESSAGES = (
    Message("text", Channel.SMS, "sms.realtime", "Hi {{ firstName }}, your table is ready."),
    Message("note", Channel.PUSH, "push.realtime", "Your table is ready.", "Hi {{ firstName }}"),
    Message("mail", Channel.EMAIL, "email.realtime", "Your table is ready.", "Hi {{ firstName }}"),
)


@dataclass
class Story:
    """What happened, for the summary."""

    kills: int = 0
    doubted: int = 0
    reconciled: list[Reconciliation] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    accounting: Accounting
    certificate: Certificate
    deliveries: Counter[str]
    by_protocol: Counter[str]
    story: Story

    @property
    def received(self) -> int:
        return len(self.deliveries)

    @property
    def duplicates(self) -> int:
        return self.deliveries.total() - len(self.deliveries)

    @property
    def lost(self) -> int:
        """Items the ledger calls sent that no simulator ever saw."""
        return max(0, self.accounting.sent - self.received)

    @property
    def holds(self) -> bool:
        return self.certificate.holds and self.duplicates == 0 and self.lost == 0

    def as_document(self) -> dict[str, object]:
        return {
            "intended": self.accounting.intended,
            "received": self.received,
            "duplicates": self.duplicates,
            "lost": self.lost,
            "inDoubt": self.accounting.in_doubt,
            "kills": self.story.kills,
            "certificate": self.certificate.holds,
        }


def demo(
    recipients: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How many people to send to.")
    ] = RECIPIENTS_DEFAULT,
    kill: Annotated[bool, typer.Option(help="Kill the worker with SIGKILL in the middle.")] = True,
    as_json: Json = False,
) -> None:
    """Send a campaign through real sockets, kill the worker midway, recover, and prove it.

    Everything lives in a temporary folder. Exit 0 only if the certificate holds and the providers'
    own log agrees with it.
    """
    configure_logging("console", level=40)
    try:
        with tempfile.TemporaryDirectory(prefix="outrider-demo-") as folder:
            result = uvloop.run(_demo(Path(folder), recipients, kill, quiet=as_json))
    except OutriderError as error:
        fail(error, as_json=as_json)
    if as_json:
        print_json(result.as_document())
    else:
        _print(result)
    if not result.holds:
        raise typer.Exit(1)


async def _demo(folder: Path, recipients: int, kill: bool, *, quiet: bool) -> Result:
    witness = folder / "received.ndjson"
    async with _child("sandbox", "--port", "0", "--smtp-port", "0", "--log", str(witness),
                      "--latency-ms", str(LATENCY_MS), "--json") as simulator:  # fmt: skip
        urls = msgspec.json.decode(await _line(simulator))
        registry = folder / "registry.json"
        registry.write_bytes(_registry(urls["http"], urls["smtp"]))
        settings = Settings(database_url=f"sqlite:///{folder}/demo.db", registry=registry)
        _say(quiet, f"providers listen on {urls['http']} (sms, push) and {urls['smtp']} (mail)")
        async with open_outrider(settings) as outrider:
            await outrider.store.migrate()
            return await _launch(outrider, witness, recipients, kill, quiet=quiet)


async def _launch(
    outrider: Outrider, witness: Path, recipients: int, kill: bool, *, quiet: bool
) -> Result:
    story = Story()
    definition = CampaignDefinition("Demo", (LAUNCH,), MESSAGES, BATCH_SIZE)
    campaign_id, _ = await outrider.deployer.create(
        DEFAULT_SCOPE, definition, _people(recipients), ACTOR
    )
    run_id, intended = await outrider.deployer.deploy(DEFAULT_SCOPE, campaign_id, ACTOR)
    _say(quiet, f"run {run_id}: {intended:,} messages over {len(MESSAGES)} channels")
    if kill:
        await _until_killed(outrider, run_id, story, quiet=quiet)
    async with _worker(outrider.settings):
        run, accounting = await watch(outrider, run_id, "after the kill" if kill else "sending")
        while accounting.in_doubt:
            # Only mail can be in doubt here: SMTP has no way to ask "do you have this one?".
            story.doubted += accounting.in_doubt
            _say(
                quiet,
                f"[yellow]{accounting.in_doubt} mails in doubt[/yellow]: the worker died between"
                " the call and its record. Asking the provider's log, not guessing.",
            )
            story.reconciled.append(await _reconcile(outrider, run_id, witness))
            run, accounting = await watch(outrider, run_id, "after the verdicts")
    certificate = await outrider.certifier.certify(DEFAULT_SCOPE, run.id)
    deliveries, by_protocol = references_delivered(witness), _by_protocol(witness)
    return Result(accounting, certificate, deliveries, by_protocol, story)


async def _until_killed(outrider: Outrider, run_id: RunId, story: Story, *, quiet: bool) -> None:
    async with _worker(outrider.settings) as worker:

        async def look(run: RunRecord, accounting: Accounting) -> None:
            if accounting.terminal >= run.intended * KILL_AT_SHARE:
                worker.send_signal(signal.SIGKILL)
                await worker.wait()
                story.kills += 1
                raise _Killed

        with suppress(_Killed):
            await watch(outrider, run_id, "sending", look)
    if story.kills:
        _say(quiet, f"[red]SIGKILL[/red] to worker {worker.pid}; starting another")


class _Killed(Exception):
    """The worker is dead; stop watching it."""


async def _reconcile(outrider: Outrider, run_id: RunId, witness: Path) -> Reconciliation:
    return await outrider.doubt_resolver.reconcile(
        DEFAULT_SCOPE,
        run_id=run_id,
        received=references_in(witness),
        absent=DoubtVerdict.RESUBMIT,
        evidence="the mail simulator's own log",
        actor=ACTOR,
        submission_target="email.realtime",
    )


def _people(count: int) -> list[Recipient]:
    """A third is reached by each channel."""
    return [
        recipient(
            f"guest-{number}",
            email=f"guest{number}@example.test",
            phone=f"+4477{number:08d}",
            push_token=f"token-{number}",
            attributes=f'{{"firstName":"Guest {number}"}}',
            message_id=MESSAGES[number % len(MESSAGES)].id,
        )
        for number in range(count)
    ]


def _registry(http_url: str, smtp_url: str) -> bytes:
    targets = [
        {
            "submissionTarget": target,
            "gatewayType": gateway_type,
            "gatewayUrl": url,
            "mode": "realtime",
            "policy": "max_attempts",
            "maxAttempts": 5,
            "terminalOutcomes": [],
        }
        for target, gateway_type, url in (
            ("sms.realtime", "sms", http_url),
            ("push.realtime", "push", http_url),
            ("email.realtime", "smtp", smtp_url),
        )
    ]
    return msgspec.json.encode({"targets": targets})


def _by_protocol(witness: Path) -> Counter[str]:
    lines = (msgspec.json.decode(line) for line in witness.read_bytes().splitlines())
    return Counter(line["protocol"] for line in lines if line["delivered"])


@asynccontextmanager
async def _child(
    *arguments: str, settings: Settings | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`outrider …` in a process of its own, ended with the block."""
    environment = {**os.environ, **(settings.as_environment() if settings else {})}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", *arguments,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await child.wait()
            except TimeoutError:
                child.kill()
                await child.wait()


@asynccontextmanager
async def _worker(settings: Settings) -> AsyncIterator[asyncio.subprocess.Process]:
    async with _child("work", "--json", settings=settings) as worker:
        await _line(worker)
        yield worker


async def _line(child: asyncio.subprocess.Process) -> bytes:
    """The line with which a child says that it is ready."""
    assert child.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await child.stdout.readline()
    except TimeoutError:
        line = b""
    if not line:
        raise OutriderError(
            "a child process of the demo did not start",
            hint="run `outrider sandbox` and `outrider work` by hand to see why",
        )
    return line


def _say(quiet: bool, sentence: str) -> None:
    if not quiet:
        err.print(sentence)


def _print(result: Result) -> None:
    story = result.story
    out.print()
    out.print(f"[bold]The ledger[/bold]    {accounting_line(result.accounting)}")
    if story.kills:
        sent = sum(each.sent for each in story.reconciled)
        again = sum(each.resubmitted for each in story.reconciled)
        out.print(
            f"[bold]The kill[/bold]      {story.kills} worker died by SIGKILL; {story.doubted}"
            f" mails were in doubt: {sent} had arrived, {again} had not and were sent again"
        )
    print_rows(
        ["The providers", "received", "twice"],
        [
            *((name, f"{count:,}", "") for name, count in sorted(result.by_protocol.items())),
            ("all", f"{result.received:,}", result.duplicates),
        ],
        "the providers received nothing",
    )
    out.print()
    print_certificate(result.certificate)
    if result.holds:
        out.print("[bold green]Nothing lost, nothing twice.[/bold green]")
    else:
        out.print(f"[bold red]{result.lost} lost, {result.duplicates} twice.[/bold red]")
