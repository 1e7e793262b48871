"""The connection to Temporal: who is trusted, who is admitted, and what is never revealed."""

import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import open_outrider
from outrider.domain.errors import EngineUnavailable
from outrider.engines.temporal import connection
from outrider.engines.temporal.engine import TemporalEngine
from outrider.settings import Settings
from outrider.testing.launches import registry, target
from tests.support.forked import ForkedProcess
from tests.support.temporal_server import TemporalServer
from tests.support.tls_proxy import HOST, Authority, Issued, Proxy, huffman, tls_proxy

API_KEY = "tasteasociaticcoast0012"
NEXT_API_KEY = "coastasociatictaste2100"
CODEC_KEY = "5e" * 32
NAME = "temporal.internal"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "stranger")


@pytest.fixture
async def proxy(temporal_server: TemporalServer, authority: Authority) -> AsyncIterator[Proxy]:
    async with tls_proxy(temporal_server.address, authority.issue(HOST)) as started:
        yield started


@pytest.fixture
async def strict_proxy(
    temporal_server: TemporalServer, authority: Authority
) -> AsyncIterator[Proxy]:
    """It admits only clients with a certificate from the authority."""
    server = authority.issue(HOST)
    async with tls_proxy(temporal_server.address, server, clients=authority) as started:
        yield started


def settings_of(proxy: Proxy, folder: Path, **others: Any) -> Settings:
    return Settings(
        database_url=f"sqlite:///{folder}/outrider.db",
        registry=folder / "registry.json",
        engine="temporal",
        temporal_address=proxy.address,
        **others,
    )


async def reach(proxy: Proxy, folder: Path, **others: Any) -> None:
    async with open_outrider(settings_of(proxy, folder, **others)) as outrider:
        await outrider.reach_engine()


def client(issued: Issued) -> dict[str, Path]:
    return {"temporal_tls_certificate": issued.certificate, "temporal_tls_key": issued.key}


async def test_a_server_with_a_custom_authority_is_trusted(
    proxy: Proxy, authority: Authority, tmp_path: Path
) -> None:
    await reach(proxy, tmp_path, temporal_tls=True, temporal_tls_ca=authority.file)
    assert proxy.heard


async def test_a_server_of_another_authority_is_refused(
    proxy: Proxy, stranger: Authority, tmp_path: Path
) -> None:
    with pytest.raises(EngineUnavailable, match="UnknownIssuer"):
        await reach(proxy, tmp_path, temporal_tls=True, temporal_tls_ca=stranger.file)
    assert not proxy.heard


async def test_without_tls_nothing_is_sent_to_a_server_that_requires_it(
    proxy: Proxy, tmp_path: Path
) -> None:
    with pytest.raises(EngineUnavailable):
        await reach(proxy, tmp_path)
    assert not proxy.heard


async def test_a_client_with_a_certificate_is_let_in(
    strict_proxy: Proxy, authority: Authority, tmp_path: Path
) -> None:
    ours = client(authority.issue("worker"))
    await reach(strict_proxy, tmp_path, temporal_tls=True, temporal_tls_ca=authority.file, **ours)
    assert strict_proxy.heard


@pytest.mark.parametrize("has_certificate", [True, False])
async def test_a_client_without_a_certificate_or_with_anothers_is_refused(
    strict_proxy: Proxy,
    authority: Authority,
    stranger: Authority,
    tmp_path: Path,
    has_certificate: bool,
) -> None:
    theirs = client(stranger.issue("worker")) if has_certificate else {}
    with pytest.raises(EngineUnavailable):
        await reach(
            strict_proxy, tmp_path, temporal_tls=True, temporal_tls_ca=authority.file, **theirs
        )
    assert not strict_proxy.heard


async def test_a_server_is_known_by_the_name_it_is_said_to_have(
    temporal_server: TemporalServer, authority: Authority, tmp_path: Path
) -> None:
    tls = {"temporal_tls": True, "temporal_tls_ca": authority.file}
    async with tls_proxy(temporal_server.address, authority.issue(NAME)) as proxy:
        with pytest.raises(EngineUnavailable, match="NotValidForName"):
            await reach(proxy, tmp_path, **tls)
        await reach(proxy, tmp_path, **tls, temporal_tls_server_name=NAME)


async def test_an_api_key_is_sent_with_each_request_and_only_inside_tls(
    proxy: Proxy, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_KEY", API_KEY)
    tls = {"temporal_tls": True, "temporal_tls_ca": authority.file}
    await reach(proxy, tmp_path, **tls)
    header = huffman(f"Bearer {API_KEY}")
    assert header not in proxy.heard
    await reach(proxy, tmp_path, **tls, temporal_api_key="env:TEMPORAL_KEY")
    assert header in proxy.heard


async def test_a_changed_api_key_is_read_again_and_one_that_is_lost_is_kept(
    proxy: Proxy, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CREDENTIAL_REREAD_SECONDS", 0.0)
    file = tmp_path / "api-key"
    file.write_text(API_KEY)
    settings = settings_of(
        proxy, tmp_path, temporal_tls=True, temporal_tls_ca=authority.file,
        temporal_api_key=f"file:{file}",
    )  # fmt: skip
    async with open_outrider(settings) as outrider:
        await outrider.reach_engine()
        next_header = huffman(f"Bearer {NEXT_API_KEY}")
        assert next_header not in proxy.heard
        file.write_text(NEXT_API_KEY)
        await outrider.reach_engine()
        assert next_header in proxy.heard
        file.unlink()
        await outrider.reach_engine()
        assert isinstance(outrider.engine, TemporalEngine)
        assert (await outrider.engine.client()).api_key == NEXT_API_KEY


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_neither_the_api_key_nor_the_codec_key_nor_a_private_key_is_ever_shown(
    proxy: Proxy,
    authority: Authority,
    stranger: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    is_trusted: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    ours = authority.issue("worker")
    monkeypatch.setenv("TEMPORAL_KEY", API_KEY)
    monkeypatch.setenv("CODEC_KEY", CODEC_KEY)
    settings = settings_of(
        proxy,
        tmp_path,
        log="json",
        temporal_tls=True,
        temporal_tls_ca=(authority if is_trusted else stranger).file,
        temporal_api_key="env:TEMPORAL_KEY",
        temporal_codec_key="env:CODEC_KEY",
        **client(ours),
    )
    settings.registry.write_bytes(registry(target("noop", "noop", "noop:")))
    async with open_outrider(settings) as outrider:
        await outrider.store.migrate()
        made = repr([outrider.settings, outrider.engine, vars(outrider.engine)])
    environment = {**os.environ, **settings.as_environment()}
    shown = [made]
    for arguments in (["check"], ["work", "--until-idle"]):
        process = await ForkedProcess.start("outrider", arguments, environment, tmp_path)
        said = [each.decode() for each in await process.communicate()]
        assert process.returncode == (0 if is_trusted else 1), said
        assert ("UnknownIssuer" in said[1]) is not is_trusted
        shown += said
    shown += [caplog.text, *capfd.readouterr()]
    private = ours.key.read_text().splitlines()[1]
    assert not [secret for secret in (API_KEY, CODEC_KEY, private) if secret in "".join(shown)]
