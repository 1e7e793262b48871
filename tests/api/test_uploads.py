"""Uploads that a server cannot keep: told so, and nothing left of them."""

import errno
import os
from pathlib import Path

import pytest

from outrider.api import uploads
from outrider.limits.api import ApiLimits
from outrider.testing.launches import target
from tests.support.api_inside import serving
from tests.support.api_server import campaign
from tests.support.whole_runs import opened


async def test_an_upload_on_a_full_disk_is_asked_to_retry_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XM: it was 500. X11: nothing of it is left."""

    async def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    noop = target("noop", "noop", "noop:")
    async with (
        opened(f"sqlite:///{tmp_path}/outrider.db", tmp_path, noop) as outrider,
        serving(outrider, ApiLimits()) as server,
    ):
        with monkeypatch.context() as disk:
            disk.setattr(uploads, "_store", full)
            async with server.session.post(
                f"{server.url}/campaigns",
                json=campaign(),
                headers={**server.headers, "Idempotency-Key": "a"},
            ) as answer:
                assert (answer.status, "Retry-After" in answer.headers) == (503, True)
                error = (await answer.json())["error"]
                assert error["code"] == "UPLOAD_NOT_KEPT"
                assert "temporary folder" in error["hint"]
        assert (await server.post("/campaigns", campaign()))["recipients"] == 2
