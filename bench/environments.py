"""Where peers are installed: each in its own environment below .bench/, never with Outrider.

Versions and hashes are pinned in bench/requirements/ and, for Node, in its lock file.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent
ROOT = BENCH.parent
HOME = ROOT / ".bench"
GRAPHILE = BENCH / "systems" / "graphile"
INSTALL_SECONDS = 900
REASON_CHARACTERS = 300
READY = "ready"


class CannotInstall(Exception):
    """Carries the reason as a sentence."""


def command(environment: str | None, script: str) -> list[str]:
    """The command that starts a system's script; installs what it needs the first time."""
    if environment is None:
        return [sys.executable, "-P", "-m", f"systems.{script}"]
    if environment == "graphile":
        return ["node", str(_node(HOME / environment) / "worker.mjs")]
    return [str(python(environment)), "-P", "-m", f"systems.{script}"]


def python(environment: str) -> Path:
    """The interpreter of that environment, installed from its pinned requirements."""
    folder, pins = HOME / environment, BENCH / "requirements" / f"{environment}.txt"
    found = folder / "bin" / "python"
    if not _is_ready(folder, [pins]):
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([
            str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--require-hashes", "-r", str(pins),
        ])  # fmt: skip
        _mark(folder, [pins])
    return found


def _node(folder: Path) -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise CannotInstall("node and npm are not installed")
    pins = [GRAPHILE / "package.json", GRAPHILE / "package-lock.json"]
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*pins, GRAPHILE / "worker.mjs"):
        shutil.copy(file, folder)
    if not _is_ready(folder, pins):
        _run(["npm", "ci", "--no-audit", "--no-fund", "--prefix", str(folder)])
        _mark(folder, pins)
    return folder


def node_version() -> str:
    found = shutil.which("node")
    if found is None:
        return "not installed"
    asked = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return asked.stdout.strip().removeprefix("v")


def _is_ready(folder: Path, pins: list[Path]) -> bool:
    mark = folder / READY
    return mark.exists() and mark.read_text() == _digest(pins)


def _mark(folder: Path, pins: list[Path]) -> None:
    (folder / READY).write_text(_digest(pins))


def _digest(pins: list[Path]) -> str:
    return hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()


def _run(arguments: list[str]) -> None:
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{Path(arguments[0]).name}: {type(error).__name__}") from error
    if done.returncode:
        raise CannotInstall(last_words(done.stderr))


def last_words(text: str) -> str:
    """The last non-empty line: a reason that fits into a table."""
    lines = [line.strip() for line in text.replace(f"{ROOT}/", "").splitlines() if line.strip()]
    return lines[-1][:REASON_CHARACTERS] if lines else "it said nothing"
