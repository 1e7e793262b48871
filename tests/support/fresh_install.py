"""Outrider as users install it: its wheel, and nothing but what the wheel asks for.

A download for every test run would take a minute. So the files of each distribution that the wheel
requires are linked from this environment; the tools of our tests stay behind.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class FreshInstall:
    folder: Path
    distributions: frozenset[str]
    size_bytes: int

    @property
    def outrider(self) -> Path:
        return self.folder / "bin/outrider"

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"


def install(folder: Path) -> FreshInstall:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    home = folder / "env"
    venv.create(home, symlinks=True)
    [packages] = home.glob("lib/*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    [installed] = packages.glob("outrider-*.dist-info")
    required = _required_by(PathDistribution(installed), {})
    linked = sum(_link(each, packages) for each in required.values())
    own = sum(path.stat().st_size for path in (packages / "outrider").rglob("*") if path.is_file())
    return FreshInstall(home, frozenset(required), linked + own)


def _required_by(root: Distribution, found: dict[str, Distribution]) -> dict[str, Distribution]:
    for name in _requirements(root, frozenset()):
        _add(name, found)
    return found


def _add(requirement: Requirement, found: dict[str, Distribution]) -> None:
    name = canonicalize_name(requirement.name)
    known = name in found
    found[name] = distribution(name)
    if known and not requirement.extras:
        return
    for each in _requirements(found[name], frozenset(requirement.extras)):
        _add(each, found)


def _requirements(wanting: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for line in wanting.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in (extras or {""})):
            yield requirement


def _link(wanted: Distribution, packages: Path) -> int:
    """Its modules and metadata, file by file: some share a folder with others. In bytes."""
    size = 0
    for file in wanted.files or ():
        source = Path(str(file.locate()))
        if ".." in file.parts or not source.is_file():
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(source.resolve(), target)
        size += source.stat().st_size
    return size
