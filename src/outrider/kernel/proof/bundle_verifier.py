"""The bundle verifier: whether a bundle or an inclusion proof holds, with nothing but its bytes."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from outrider.domain.bundles import (
    BUNDLE_FORMAT,
    EVENT_FIELDS,
    INCLUSION_FORMAT,
    BundleFinding,
    BundleProblem,
    LineKind,
)
from outrider.domain.chain_walk import ChainWalk
from outrider.domain.event_chain import content_hash
from outrider.domain.merkle import MerkleRoot, leaf_hash, root_by_path
from outrider.domain.seals import Seal
from outrider.domain.states import SUCCESSES
from outrider.kernel.proof.evidence_writer import end_line
from outrider.kernel.transactions.sealed_rows import LEDGER_FIELDS, RECEIPT_FIELDS, hidden
from outrider.limits.proof import FINDINGS_MAX
from outrider.ports.signing import SignatureCheck

_STATUS = LEDGER_FIELDS.index("status")
_CONTRACT = LEDGER_FIELDS.index("contractId")
_RECIPIENT = LEDGER_FIELDS.index("recipientHash")
_SEAL_CELLS = 4
_SEAL_LINE = 2
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, KeyError, IndexError, RecursionError)


@dataclass(slots=True)
class VerifiedBundle:
    run_id: str | None = None
    key_ids: list[str] = field(default_factory=list)
    """Which keys signed it: two where the key was replaced between the seal and the bundle."""
    certificate: dict[str, Any] = field(default_factory=dict)
    seal: Seal | None = None
    last_event: int = 0
    head: bytes | None = None
    """The hash of the last event."""
    counted: Counter[str] = field(default_factory=Counter)
    findings: list[BundleFinding] = field(default_factory=list)
    """The first of them; `problems` counts all."""
    problems: int = 0

    @property
    def holds(self) -> bool:
        return not self.problems

    def note(self, problem: BundleProblem, which: object = "") -> None:
        self.problems += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(BundleFinding(problem, str(which)))


class BundleVerifier:
    def __init__(self, is_signed: SignatureCheck, public_keys: Collection[bytes] = ()) -> None:
        """With public keys, only what was signed with these holds."""
        self._is_signed = is_signed
        self._public_keys = frozenset(public_keys)

    def verify(self, lines: Iterable[bytes]) -> VerifiedBundle:
        """Lines with their ends, as a file yields them."""
        found = VerifiedBundle()
        reading = BundleReading(found, self)
        last = b""
        for line in lines:
            if last:
                reading.take(last)
            last = line
        reading.end(last)
        return found

    async def verify_pieces(self, pieces: AsyncIterable[bytes]) -> VerifiedBundle:
        """A bundle as a store reads it, in pieces of any size."""
        found = VerifiedBundle()
        reading = BundleReading(found, self)
        last, rest = b"", b""
        async for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if last:
                    reading.take(last)
                last = line + b"\n"
        if rest and last:
            reading.take(last)
        reading.end(rest or last)
        return found

    def verify_inclusion(self, content: bytes) -> VerifiedBundle:
        found = VerifiedBundle()
        try:
            document = msgspec.json.decode(content)
            if document["format"] != INCLUSION_FORMAT or msgspec.json.encode(document) != content:
                found.note(BundleProblem.UNREADABLE)
                return found
            if document["ledgerFields"] != list(LEDGER_FIELDS) or set(document) != _INCLUSION:
                found.note(BundleProblem.UNREADABLE)
            seal = self.seal_of(document["seal"], found)
            if not document["items"]:
                found.note(BundleProblem.CUT_OFF)
            for item in document["items"]:
                self._verify_item(item, seal, found)
        except _UNREADABLE:
            found.note(BundleProblem.UNREADABLE)
        return found

    def _verify_item(self, item: dict[str, Any], seal: Seal | None, found: VerifiedBundle) -> None:
        row, salt = item["row"], bytes.fromhex(item["salt"])
        leaf = leaf_hash(msgspec.json.encode(row))
        path = [bytes.fromhex(each) for each in item["path"]]
        found.counted[LineKind.LEDGER] += 1
        if set(item) != _ITEM or not _is_canonical(item):
            found.note(BundleProblem.UNREADABLE, row[0])
        hashes = [hidden(salt, item["recipient"]), hidden(salt, item["detail"])]
        if hashes != row[_RECIPIENT : _RECIPIENT + 2]:
            found.note(BundleProblem.PERSON, row[0])
        if seal is not None:
            root = root_by_path(leaf, item["place"], seal.ledger_rows, path)
            if root is None or root.hex() != seal.ledger_root:
                found.note(BundleProblem.PATH, row[0])

    def seal_of(self, cells: Sequence[Any], found: VerifiedBundle) -> Seal | None:
        """The seal, if it is signed by the key it names."""
        if len(cells) != _SEAL_CELLS:
            found.note(BundleProblem.SEAL)
            return None
        document, key_id, public_key, signature = cells
        key = bytes.fromhex(public_key)
        if public_key != key.hex() or signature != bytes.fromhex(signature).hex():
            found.note(BundleProblem.SEAL)
            return None
        self.verify_key(key, key_id, found)
        if not self._is_signed(key, document.encode(), bytes.fromhex(signature)):
            found.note(BundleProblem.SEAL)
            return None
        seal = Seal.parse(document)
        found.run_id = seal.run_id
        return seal

    def verify_key(self, key: bytes, key_id: str, found: VerifiedBundle) -> None:
        if key_id not in found.key_ids:
            found.key_ids.append(key_id)
        is_wanted = not self._public_keys or key in self._public_keys
        if not is_wanted or hashlib.sha256(key).hexdigest()[: len(key_id)] != key_id or not key_id:
            found.note(BundleProblem.KEY, key_id)

    def is_signed(self, key: bytes, message: bytes, signature: bytes) -> bool:
        return self._is_signed(key, message, signature)


_INCLUSION = {"format", "ledgerFields", "seal", "items"}
_ITEM = {"row", "place", "path", "salt", "recipient", "detail"}


def _is_canonical(item: dict[str, Any]) -> bool:
    return all(
        each == bytes.fromhex(each).hex() for each in (item["salt"], *item["path"])
    ) and isinstance(item["place"], int)


class BundleReading:
    """One bundle, line by line; it keeps no lines."""

    def __init__(self, found: VerifiedBundle, verifier: BundleVerifier) -> None:
        self._found = found
        self._verifier = verifier
        self._digest = hashlib.sha256()
        self._lines = 0
        self._certificate: dict[str, Any] = {}
        self._seal: Seal | None = None
        self._events = ChainWalk()
        self._last_event = 0
        self._sealed_head: str | None = None
        self._certified_head: str | None = None
        self._roots = {LineKind.LEDGER: MerkleRoot(), LineKind.RECEIPT: MerkleRoot()}
        self._statuses: Counter[str] = Counter()
        self._contracts: set[int] = set()
        self._used: set[int] = set()

    def take(self, line: bytes) -> None:
        self._digest.update(line)
        self._lines += 1
        try:
            kind, *cells = msgspec.json.decode(line, type=list[msgspec.Raw])
            self._take(LineKind(msgspec.json.decode(kind, type=str)), cells)
        except _UNREADABLE:
            self._found.note(BundleProblem.UNREADABLE, self._lines)

    def _take(self, kind: LineKind, cells: list[msgspec.Raw]) -> None:
        self._found.counted[kind] += 1
        match kind:
            case LineKind.BUNDLE:
                self._take_header(*cells)
            case LineKind.SEAL:
                if self._lines != _SEAL_LINE:
                    self._found.note(BundleProblem.UNREADABLE, self._lines)
                given = [msgspec.json.decode(cell) for cell in cells]
                self._seal = self._verifier.seal_of(given, self._found)
            case LineKind.EVENT:
                self._take_event(*cells)
            case LineKind.LEDGER | LineKind.RECEIPT:
                self._take_row(kind, *cells)
            case LineKind.CONTRACT:
                self._take_contract(*cells)
            case LineKind.END:
                self._found.note(BundleProblem.UNREADABLE, self._lines)
            case LineKind.TEMPLATE | LineKind.HOLD | LineKind.VERDICT:
                pass

    def _take_header(self, content: msgspec.Raw) -> None:
        header = msgspec.json.decode(content)
        names = header["eventFields"], header["ledgerFields"], header["receiptFields"]
        is_known = names == (list(EVENT_FIELDS), list(LEDGER_FIELDS), list(RECEIPT_FIELDS))
        if header["format"] != BUNDLE_FORMAT or self._lines != 1 or not is_known:
            self._found.note(BundleProblem.UNREADABLE, self._lines)
        self._certificate = header["certificate"]

    def _take_contract(
        self, id_: msgspec.Raw, sha256: msgspec.Raw, _target: msgspec.Raw, document: msgspec.Raw
    ) -> None:
        """Its document is canonical JSON, so its hash is that of its bytes."""
        contract = msgspec.json.decode(id_, type=int)
        said = msgspec.json.decode(sha256, type=str)
        if hashlib.sha256(bytes(document)).hexdigest() != said or contract in self._contracts:
            self._found.note(BundleProblem.CONTRACT, contract)
        self._contracts.add(contract)

    def _take_event(self, number: msgspec.Raw, said: msgspec.Raw, content: msgspec.Raw) -> None:
        sequence = msgspec.json.decode(number, type=int)
        said_hash = msgspec.json.decode(said, type=str | None)
        stored = None if said_hash is None else bytes.fromhex(said_hash)
        self._events.step(sequence, stored, content_hash(bytes(content).decode()))
        self._last_event = sequence
        if self._seal is not None and sequence == self._seal.events:
            self._sealed_head = said_hash
        if sequence == (self._certificate.get("eventChain") or {}).get("events"):
            self._certified_head = said_hash

    def _take_row(self, kind: LineKind, said: msgspec.Raw, content: msgspec.Raw) -> None:
        leaf = leaf_hash(bytes(content))
        row = msgspec.json.decode(content, type=list[Any])
        if msgspec.json.decode(said, type=str) != leaf.hex():
            problem = BundleProblem.LEDGER_ROW if kind is LineKind.LEDGER else BundleProblem.RECEIPT
            self._found.note(problem, row[0] if kind is LineKind.LEDGER else row[1])
        self._roots[kind].add(leaf)
        if kind is LineKind.LEDGER:
            self._statuses[row[_STATUS]] += 1
            self._used.add(row[_CONTRACT])

    def end(self, line: bytes) -> None:
        found = self._found
        found.certificate, found.seal = self._certificate, self._seal
        found.last_event, found.head = self._last_event, self._events.head
        self._verify_end(line)
        self._verify_seal()
        try:
            self._verify_certificate()
        except _UNREADABLE:
            self._found.note(BundleProblem.UNREADABLE, 1)

    def _verify_end(self, line: bytes) -> None:
        found = self._found
        try:
            kind, digest, lines, key_id, public_key, signature = msgspec.json.decode(line)
            key, signed = bytes.fromhex(public_key), bytes.fromhex(signature)
            is_end = kind == LineKind.END and line == end_line(
                bytes.fromhex(digest), lines, key_id, key, signed
            )
        except _UNREADABLE:
            found.note(BundleProblem.CUT_OFF)
            return
        if not is_end:
            found.note(BundleProblem.CUT_OFF)
            return
        if digest != self._digest.hexdigest() or lines != self._lines:
            found.note(BundleProblem.DIGEST)
        self._verifier.verify_key(key, key_id, found)
        if not self._verifier.is_signed(key, bytes.fromhex(digest), signed):
            found.note(BundleProblem.SIGNATURE)

    def _verify_seal(self) -> None:
        found, seal = self._found, self._seal
        if seal is None:
            found.note(BundleProblem.SEAL)
            return
        if self._roots[LineKind.LEDGER].root().hex() != seal.ledger_root:
            found.note(BundleProblem.LEDGER_ROOT)
        if self._roots[LineKind.RECEIPT].root().hex() != seal.receipts_root:
            found.note(BundleProblem.RECEIPTS_ROOT)
        if self._sealed_head != seal.event_head:
            found.note(BundleProblem.EVENT_HEAD, seal.events)
        if not self._used <= self._contracts:
            found.note(BundleProblem.CONTRACT)

    def _verify_certificate(self) -> None:
        found, said = self._found, self._certificate
        chain = said["eventChain"] or {"events": self._last_event, "head": None}
        head = None if chain["head"] is None else bytes.fromhex(chain["head"])
        if self._certified_head != chain["head"]:
            found.note(BundleProblem.EVENT_HEAD, chain["events"])
        # The certificate was made before the events were written: the run may have had one more.
        self._events.end(max(chain["events"], self._last_event), self._events.head or head)
        for entry in self._events.found:
            found.note(BundleProblem.EVENT, entry.first)
        if self._seal is not None and said["runId"] != self._seal.run_id:
            found.note(BundleProblem.SEAL)
        accounting = said["accounting"]
        counted = {
            "sent": sum(self._statuses[status] for status in SUCCESSES),
            "failed": self._statuses["failed"],
            "skipped": self._statuses["skipped"],
            "intended": self._statuses.total(),
        }
        if any(accounting[name] != value for name, value in counted.items()):
            found.note(BundleProblem.ACCOUNTING)
