"""Distributions that a test installs: a module, and metadata that registers what is in it."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

Install = Callable[..., None]


@contextmanager
def installing(group: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(entry_points, code, module)`, for the block: in this group, from this folder."""
    monkeypatch.syspath_prepend(str(folder))
    modules: list[str] = []

    def install(entry_points: Mapping[str, str], code: str, module: str = "plugin") -> None:
        (folder / f"{module}.py").write_text(code)
        metadata = folder / f"acme_{module}-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: acme-{module}\nVersion: 1.2\n"
        )
        lines = [f"{name} = {value}" for name, value in entry_points.items()]
        (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
        modules.append(module)

    yield install
    for module in modules:
        sys.modules.pop(module, None)
