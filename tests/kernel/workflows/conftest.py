"""Shared by tests of workflow roles: an office on either store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.workflows import Office, office


@pytest.fixture
async def an_office(database: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with office(database, tmp_path) as made:
        yield made
