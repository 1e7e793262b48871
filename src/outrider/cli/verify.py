"""`outrider verify`: whether anything was changed since it was written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, fail, out, print_json, print_rows
from outrider.cli.documents import Document
from outrider.cli.session import execute
from outrider.domain.bundles import BundleProblem, LineKind
from outrider.domain.errors import InvalidInput
from outrider.kernel.proof.bundle_verifier import BundleVerifier, VerifiedBundle
from outrider.kernel.proof.database_verifier import Proven, Verification
from outrider.secrets.signing import KEY_BYTES, is_signed

SHOWN = 50
_SENTENCES = {
    BundleProblem.UNREADABLE: texts.BundleProblems.UNREADABLE,
    BundleProblem.CUT_OFF: texts.BundleProblems.CUT_OFF,
    BundleProblem.DIGEST: texts.BundleProblems.DIGEST,
    BundleProblem.SIGNATURE: texts.BundleProblems.SIGNATURE,
    BundleProblem.KEY: texts.BundleProblems.KEY,
    BundleProblem.SEAL: texts.BundleProblems.SEAL,
    BundleProblem.EVENT: texts.BundleProblems.EVENT,
    BundleProblem.EVENT_HEAD: texts.BundleProblems.EVENT_HEAD,
    BundleProblem.LEDGER_ROW: texts.BundleProblems.LEDGER_ROW,
    BundleProblem.LEDGER_ROOT: texts.BundleProblems.LEDGER_ROOT,
    BundleProblem.RECEIPT: texts.BundleProblems.RECEIPT,
    BundleProblem.RECEIPTS_ROOT: texts.BundleProblems.RECEIPTS_ROOT,
    BundleProblem.ACCOUNTING: texts.BundleProblems.ACCOUNTING,
    BundleProblem.CONTRACT: texts.BundleProblems.CONTRACT,
    BundleProblem.PERSON: texts.BundleProblems.PERSON,
    BundleProblem.PATH: texts.BundleProblems.PATH,
}


def verify(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A bundle or proof of `outrider run evidence`."),
    ] = None,
    public_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="A public key, in hex or a file with it: nothing else may have signed. Give the"
            " option twice if the key was replaced in between.",
        ),
    ] = None,
    database: Annotated[
        bool,
        typer.Option(
            "--database", help="Check the database: the chains of all runs and audit logs."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a bundle without a database, or the database: name everything that was changed.

    Exits with 1 if there is anything.
    """
    if file is not None and not database:
        _verify_file(file, public_key or [], as_json=as_json)
        return
    if file is not None or not database:
        fail(InvalidInput(texts.Verify.NOTHING_GIVEN), as_json=as_json)

    async def here(outrider: Outrider) -> Verification:
        return await outrider.database_verifier.verify()

    found = execute(context, here, as_json=as_json)
    if as_json:
        print_json(_document(found))
    else:
        _print(found)
    if not found.holds:
        raise typer.Exit(1)


def _verify_file(file: Path, public_keys: Sequence[str], *, as_json: bool) -> None:
    try:
        verifier = BundleVerifier(is_signed, [_key(each) for each in public_keys])
        with file.open("rb") as opened:
            is_proof = opened.read(1) == b"{"
            opened.seek(0)
            found = (
                verifier.verify_inclusion(opened.read()) if is_proof else verifier.verify(opened)
            )
    except InvalidInput as error:
        fail(error, as_json=as_json)
    except OSError as error:
        unreadable = texts.Verify.UNREADABLE.format(file=file, error=error.strerror)
        fail(InvalidInput(unreadable), as_json=as_json)
    if as_json:
        print_json(_bundle_document(found))
    else:
        _print_bundle(found, is_key_given=bool(public_keys))
    if not found.holds:
        raise typer.Exit(1)


def _key(given: str) -> bytes:
    """In hex, or a file that has it so."""
    path = Path(given)
    try:
        key = bytes.fromhex(path.read_text().strip() if path.is_file() else given)
    except (ValueError, OSError):
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInput(texts.Verify.NOT_A_KEY)
    return key


def _print_bundle(found: VerifiedBundle, *, is_key_given: bool) -> None:
    out.print(
        texts.Verify.BUNDLE.format(
            run_id=found.run_id,
            rows=found.counted[LineKind.LEDGER],
            receipts=found.counted[LineKind.RECEIPT],
            events=found.counted[LineKind.EVENT],
        )
    )
    for each in found.findings[:SHOWN]:
        sentence = _SENTENCES[each.problem]
        out.print(f"[red]✗[/red] {sentence} {escape(each.which)}".rstrip())
    if found.holds:
        keys = ", ".join(found.key_ids)
        out.print(texts.Verify.BUNDLE_HOLDS.format(key_ids=keys))
        if not is_key_given:
            out.print(texts.Verify.WHOSE_KEY, style="dim")
    else:
        out.print(texts.Verify.BUNDLE_DOES_NOT_HOLD)


def _bundle_document(found: VerifiedBundle) -> Document:
    return {
        "holds": found.holds,
        "runId": found.run_id,
        "keyIds": found.key_ids,
        "counted": {str(kind): count for kind, count in found.counted.items()},
        "problems": found.problems,
        "findings": [
            {"problem": each.problem.value, "which": each.which} for each in found.findings
        ],
        "success": found.holds,
    }


def _print(found: Verification) -> None:
    out.print(
        texts.Verify.CHECKED.format(
            runs=found.checked[Proven.RUN],
            events=found.checked[Proven.RUN_EVENT],
            rows=found.checked[Proven.LEDGER_ROW],
            entries=found.checked[Proven.AUDIT_ENTRY],
        )
    )
    if found.before_chain:
        out.print(texts.Verify.BEFORE_CHAIN.format(events=found.before_chain), style="dim")
    if found.unsealed:
        out.print(texts.Verify.UNSEALED.format(runs=found.unsealed), style="dim")
    if found.retired:
        out.print(texts.Verify.RETIRED.format(runs=found.retired), style="dim")
    if found.erased:
        out.print(texts.Verify.ERASED.format(rows=found.erased), style="dim")
    if found.receipts_since:
        out.print(texts.Verify.RECEIPTS_SINCE.format(receipts=found.receipts_since), style="dim")
    if found.other_keys:
        keys = ", ".join(sorted(found.other_keys))
        out.print(texts.Verify.OTHER_KEYS.format(keys=keys), style="dim")
    if found.waiting:
        out.print(texts.Verify.WAITING.format(entries=found.waiting), style="dim")
    if found.holds:
        out.print(texts.Verify.HOLDS)
        return
    print_rows(
        ["what", "how", "run or workspace", "which"],
        [
            (each.what.replace("_", " "), each.how.value, each.where, each.which)
            for each in found.findings[:SHOWN]
        ],
        "",
    )
    out.print(texts.Verify.TAMPERED.format(rows=found.tampered))


def _document(found: Verification) -> Document:
    return {
        "holds": found.holds,
        "checked": {
            "runs": found.checked[Proven.RUN],
            "runEvents": found.checked[Proven.RUN_EVENT],
            "sealedRows": found.checked[Proven.LEDGER_ROW],
            "auditEntries": found.checked[Proven.AUDIT_ENTRY],
        },
        "beforeChain": found.before_chain,
        "waiting": found.waiting,
        "unsealed": found.unsealed,
        "retired": found.retired,
        "erased": found.erased,
        "receiptsSince": found.receipts_since,
        "otherKeys": sorted(found.other_keys),
        "tampered": found.tampered,
        "findings": [
            {
                "what": each.what.value,
                "how": each.how.value,
                "where": each.where,
                "which": each.which,
            }
            for each in found.findings
        ],
        "success": found.holds,
    }
