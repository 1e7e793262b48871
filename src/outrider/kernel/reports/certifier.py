"""The certifier: proves from the ledger's rows that a campaign was launched, or says why not.

Each criterion is counted from the rows, page by page; no stored counter is trusted.
"""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from outrider.domain.ids import RunId, Scope
from outrider.domain.outbox import Accounting
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import SUCCESSES, TERMINAL_ITEMS, TERMINAL_RUNS, ItemStatus, RunStatus
from outrider.domain.times import rfc3339
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import (
    chains,
    delivery_accountings,
    doubts,
    ledger_pages,
    policy_holds,
    retirement,
    run_records,
    seals,
)
from outrider.kernel.transactions.chains import ChainedRun
from outrider.kernel.transactions.doubts import Settled
from outrider.kernel.transactions.ledger_pages import LedgerLine, LedgerPosition
from outrider.kernel.transactions.policy_holds import PolicyHold
from outrider.kernel.transactions.run_records import RunEnding, RunRecord
from outrider.kernel.transactions.seals import StoredSeal

DeclaredMemory = Callable[[str], ReferenceMemory]
"""How long a submission target is currently declared to remember references."""


@dataclass(frozen=True, slots=True)
class CheckedCriterion:
    name: str
    holds: bool
    detail: str


@dataclass(slots=True)
class Repeats:
    """The basis for ruling out duplicates. If no call was repeated, the ledger alone proves it."""

    remembered: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Items called again after a silence, by target and its declared memory."""
    undeclared: Counter[str] = field(default_factory=Counter)
    """The same, by target, where no memory is declared."""
    disproved: int = 0
    """Items called again because evidence showed that the first call never arrived."""

    def note(self, line: LedgerLine, declared: DeclaredMemory) -> None:
        self.disproved += bool(line.was_disproved)
        if line.repeat_memory is not None and line.repeat_target is not None:
            target, memory = line.repeat_target, ReferenceMemory.parse(line.repeat_memory)
        elif line.was_repeated_before:
            target, memory = line.submission_target, declared(line.submission_target)
        else:
            return
        if memory.is_memory:
            self.remembered[target, str(memory)] += 1
        else:
            self.undeclared[target] += 1

    def as_document(self) -> dict[str, object]:
        return {
            "remembered": [
                {"submissionTarget": target, "remembersReferences": memory, "items": items}
                for (target, memory), items in sorted(self.remembered.items())
            ],
            "undeclared": [
                {"submissionTarget": target, "items": items}
                for target, items in sorted(self.undeclared.items())
            ],
            "disproved": self.disproved,
        }


@dataclass(frozen=True, slots=True)
class Certificate:
    """`digest` is SHA-256 over every row's key and status, in order, so it can be verified."""

    run: RunRecord
    accounting: Accounting
    criteria: tuple[CheckedCriterion, ...]
    repeats: Repeats
    digest: str
    issued_at: str
    settled: tuple[Settled, ...] = ()
    """By what its doubts were settled: the last verdict on each item."""
    held: tuple[PolicyHold, ...] = ()
    """How many recipients waited for the workspace's policy before anything was sent to them."""
    chain: ChainedRun | None = None
    """The head of the run's hash chain, which covers every event of its log."""
    seal: StoredSeal | None = None
    """The last seal of its ledger and receipts; made a moment after the run's end."""
    fallbacks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How many were accepted by a fallback, by their target and the fallback."""

    @property
    def holds(self) -> bool:
        return all(criterion.holds for criterion in self.criteria)

    def as_document(self) -> dict[str, object]:
        return {
            "runId": self.run.id,
            "campaignId": self.run.campaign_id,
            "status": self.run.status,
            "holds": self.holds,
            "criteria": [
                {"name": each.name, "holds": each.holds, "detail": each.detail}
                for each in self.criteria
            ],
            "repeats": self.repeats.as_document(),
            "doubts": [
                {
                    "kind": each.kind,
                    "verdict": each.verdict,
                    "source": each.source,
                    "items": each.items,
                }
                for each in self.settled
            ],
            "held": [{"waitsFor": each.waits_for, "items": each.items} for each in self.held],
            "fallbacks": [
                {"submissionTarget": target, "fallback": fallback, "items": items}
                for (target, fallback), items in sorted(self.fallbacks.items())
            ],
            "accounting": self.accounting.as_document(),
            "receipts": self.receipts_document(),
            "ledgerDigest": self.digest,
            "eventChain": self.chain_document(),
            "seal": self.seal_document(),
            "issuedAt": self.issued_at,
        }

    def chain_document(self) -> dict[str, object] | None:
        """None for a run that ended before there were chains."""
        if self.chain is None or self.chain.head is None:
            return None
        return {"events": self.chain.last_seq, "head": self.chain.head.hex()}

    def seal_document(self) -> dict[str, object] | None:
        if self.seal is None:
            return None
        sealed = self.seal.parsed()
        return {
            "seal": sealed.seal,
            "ledgerRows": sealed.ledger_rows,
            "ledgerRoot": sealed.ledger_root,
            "receipts": sealed.receipts,
            "receiptsRoot": sealed.receipts_root,
            "hash": sealed.hash(),
            "keyId": self.seal.key_id,
            "signature": bytes(self.seal.signature).hex(),
            "sealedAt": sealed.sealed_at,
        }

    def receipts_document(self) -> dict[str, object] | None:
        """What receipts report about the sent messages, and how many messages they cover. This is
        only the providers' word: it does not decide whether the certificate holds."""
        counts = self.accounting.delivery
        if counts is None:
            return None
        return {
            "sent": self.accounting.sent,
            "reported": counts.reported,
            "coveragePercentage": _percentage(counts.reported, self.accounting.sent),
            "delivery": counts.as_document(),
        }


class Certifier:
    def __init__(self, foundation: Foundation, declared: DeclaredMemory) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._declared = declared

    async def document(self, scope: Scope, run_id: RunId) -> dict[str, Any]:
        """The certificate as it is published; of a retired run, the one in its bundle."""
        await self._store.read(run_records.run(scope, run_id))
        kept = await self._store.read(retirement.of_run(run_id))
        if kept is not None:
            return cast("dict[str, Any]", msgspec.json.decode(kept.certificate))
        return (await self.certify(scope, run_id)).as_document()

    async def certify(self, scope: Scope, run_id: RunId) -> Certificate:
        run, accounting = await self._store.read(
            delivery_accountings.run_with_accounting(scope, run_id)
        )
        statuses: Counter[ItemStatus] = Counter()
        references: set[bytes] = set()
        repeated, repeats = 0, Repeats()
        fallbacks: Counter[tuple[str, str]] = Counter()
        digest = hashlib.sha256()
        async for line in self._ledger(run_id):
            statuses[ItemStatus(line.status)] += 1
            digest.update(f"{line.reference} {line.status}\n".encode())
            reference = bytes.fromhex(line.reference)
            repeated += reference in references
            references.add(reference)
            repeats.note(line, self._declared)
            if line.called_target is not None and ItemStatus(line.status) in SUCCESSES:
                fallbacks[line.submission_target, line.called_target] += 1
        unique = await self._store.read(ledger_pages.key_is_unique_in_schema())
        left = await self._store.read(run_records.left_in_doubt(run.campaign_id))
        ending = await self._store.read(run_records.run_ending(run_id))
        settled = await self._store.read(doubts.verdicts_of_run(run_id))
        held = (await self._store.read(policy_holds.of_runs([run_id]))).get(run_id, [])
        return Certificate(
            run,
            accounting,
            (
                _run_terminal(run, ending),
                _items_terminal(run, statuses),
                _duplicates_impossible(unique, repeated, repeats),
                _adds_up(accounting, statuses),
                *([_earlier_settled(left)] if run.retry_of else []),
            ),
            repeats,
            digest.hexdigest(),
            rfc3339(self._clock.now()),
            tuple(settled),
            tuple(held),
            await self._store.read(chains.run(run_id)),
            next(reversed(await self._store.read(seals.of_run(run_id))), None),
            fallbacks,
        )

    async def _ledger(self, run_id: RunId) -> AsyncIterator[LedgerLine]:
        after = LedgerPosition()
        most = self._limits.certificate_page_items
        while True:
            page = await self._store.read(ledger_pages.ledger_page(run_id, after, most))
            for line in page:
                yield line
            if len(page) < most:
                return
            after = LedgerPosition(page[-1].job_id, page[-1].id)


def _percentage(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def _run_terminal(run: RunRecord, ending: RunEnding) -> CheckedCriterion:
    """The run's row is not enough: its log and its jobs must agree."""
    detail = f"the run is {run.status}"
    terminal = RunStatus(run.status) in TERMINAL_RUNS
    if terminal and not ending.agrees_with(run.status):
        detail += ", which its log and jobs do not confirm"
        terminal = False
    return CheckedCriterion("run_terminal", terminal, detail)


def _items_terminal(run: RunRecord, statuses: Counter[ItemStatus]) -> CheckedCriterion:
    terminal = sum(statuses[status] for status in TERMINAL_ITEMS)
    holds = terminal == run.intended and statuses.total() == run.intended
    return CheckedCriterion(
        "every_item_terminal", holds, f"{terminal:,} of {run.intended:,} items have a terminal row"
    )


def _duplicates_impossible(unique: bool, repeated: int, repeats: Repeats) -> CheckedCriterion:
    undeclared = repeats.undeclared
    if not unique:
        detail = "the database lacks the unique constraint on idempotency keys"
    elif repeated:
        detail = f"{repeated:,} keys are in the ledger twice"
    elif undeclared:
        detail = "; ".join(
            f"{items:,} items were called again at {target}, which is not declared to remember"
            " references"
            for target, items in sorted(undeclared.items())
        )
    else:
        detail = f"every key is unique, by constraint; {_on_whose_word(repeats)}"
    return CheckedCriterion(
        "duplicates_impossible", unique and not repeated and not undeclared, detail
    )


def _on_whose_word(repeats: Repeats) -> str:
    words = [
        f'{items:,} items were called again as {target} allows (remembers_references = "{memory}")'
        for (target, memory), items in sorted(repeats.remembered.items())
    ]
    if repeats.disproved:
        words.append(
            f"{repeats.disproved:,} items were called again on evidence that the first call never"
            " arrived"
        )
    return "; ".join(words) or "no call was repeated, so the ledger alone proves it"


def _earlier_settled(left: int) -> CheckedCriterion:
    """A retry excludes items in doubt; until they have a verdict, it is unknown who was reached."""
    detail = f"{left:,} items of the runs it retried are in doubt"
    return CheckedCriterion("earlier_runs_settled", left == 0, detail)


def _adds_up(accounting: Accounting, statuses: Counter[ItemStatus]) -> CheckedCriterion:
    """The accounting identity, and agreement of the running counts with the rows counted here."""
    agrees = (
        accounting.sent == sum(statuses[status] for status in SUCCESSES)
        and accounting.failed == statuses[ItemStatus.FAILED]
        and accounting.skipped == statuses[ItemStatus.SKIPPED]
    )
    a = accounting
    detail = (
        f"{a.intended:,} = {a.waiting:,} waiting + {a.in_doubt:,} in doubt + {a.sent:,} sent"
        f" + {a.failed:,} failed + {a.skipped:,} skipped"
    )
    return CheckedCriterion("accounting_adds_up", accounting.holds and agrees, detail)
