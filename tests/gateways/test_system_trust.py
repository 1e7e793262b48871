"""The system's certificate authorities are read once, and again when they have changed."""

import os
from pathlib import Path

import certifi
import pytest

from outrider.gateways.system_trust import system_trust


def test_the_authorities_are_shared_until_the_environment_or_their_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "ca.pem"
    ours.write_text(Path(certifi.where()).read_text())
    before = system_trust()
    assert system_trust() is before
    monkeypatch.setenv("SSL_CERT_FILE", str(ours))
    moved = system_trust()
    assert moved is not before
    assert system_trust() is moved
    os.utime(ours, (1, 1))
    assert system_trust() is not moved
