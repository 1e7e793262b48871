"""Shared by tests of the kernel's roles: Outrider on either store, at a gateway that takes all."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.testing.launches import target
from tests.support.noop_launches import NOOP
from tests.support.whole_runs import opened


@pytest.fixture
async def noop_outrider(database: str, tmp_path: Path) -> AsyncIterator[Outrider]:
    async with opened(database, tmp_path, target(NOOP, "noop", "noop:")) as outrider:
        yield outrider
