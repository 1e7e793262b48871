"""Wrong keys (audit X7): who presents them waits, and nobody with a right key does."""

import asyncio
from pathlib import Path

from outrider.limits.access import FAILED_AUTH_BURST, FAILED_AUTH_CLIENT_BURST
from tests.support.api_server import ApiServer, running_server

ROOT = "root-key-that-nobody-used-yet"


def with_another_secret(key: str, number: int = 0) -> str:
    """The same key id, so the same prefix, and a secret that is none."""
    return f"{key.rpartition('_')[0]}_{number:064x}"


def of_nobody(number: int) -> str:
    return f"outrider_{number:032x}_{0:064x}"


async def statuses(
    server: ApiServer, keys: list[str], forwarded_for: str | None = None
) -> list[int]:
    headers = {"X-Forwarded-For": forwarded_for} if forwarded_for else None
    return [
        (await server.request("GET", "/campaigns", headers=headers, key=key)).status for key in keys
    ]


async def new_key(server: ApiServer, name: str) -> str:
    made = await server.post("/keys", {"name": name, "scopes": ["read"]})
    return str(made["key"])


async def test_a_right_key_is_let_in_whatever_wrong_ones_come_from_its_address(
    database: str, tmp_path: Path
) -> None:
    """X7: 429 for a key that was not seen yet, and for the root key."""
    async with running_server(tmp_path, database=database, workers=0) as server:
        unseen, same_id = await new_key(server, "unseen"), await new_key(server, "same-id")
        first_key = server.key
    root = {"OUTRIDER_ROOT_KEY": ROOT}
    async with running_server(tmp_path, database=database, workers=0, environment=root) as server:
        # Nobody's key has been seen by this process; one client guesses, in all ways there are.
        flood = [of_nobody(number) for number in range(FAILED_AUTH_CLIENT_BURST)]
        assert set(await statuses(server, flood)) == {401}
        mistaken = [with_another_secret(same_id, number) for number in range(FAILED_AUTH_BURST + 1)]
        assert set(await statuses(server, mistaken)) <= {401, 429}
        # The limit refills with time, so that on a slow machine one of them may get its 401.
        assert 429 in await statuses(server, [of_nobody(10**6 + number) for number in range(3)])
        assert 429 in await statuses(server, [f"not even a key {number}" for number in range(3)])
        assert await statuses(server, [unseen, same_id, ROOT, first_key]) == [200] * 4
        # Also while the flood goes on.
        mixed = await asyncio.gather(
            *(statuses(server, [of_nobody(number)]) for number in range(60)),
            *(statuses(server, [unseen]) for _ in range(10)),
        )
        assert mixed[60:] == [[200]] * 10


async def test_each_wrong_key_has_its_own_limit(tmp_path: Path) -> None:
    """X7: a client with an old key is told so, however often another's wrong key came before."""
    async with running_server(tmp_path, workers=0) as server:
        wrong = [of_nobody(1)] * (FAILED_AUTH_BURST + 1)
        assert await statuses(server, wrong) == [401] * FAILED_AUTH_BURST + [429]
        assert await statuses(server, [of_nobody(2)]) == [401]


async def test_behind_a_trusted_proxy_each_client_has_its_own_limit(tmp_path: Path) -> None:
    """A11 and X7: the test is the proxy; an address in front of the last one is not believed."""
    trusted = {"OUTRIDER_TRUSTED_PROXIES": "127.0.0.0/8"}
    async with running_server(tmp_path, workers=0, environment=trusted) as server:
        wrong = [of_nobody(1)] * (FAILED_AUTH_BURST + 1)
        assert (await statuses(server, wrong, "203.0.113.7"))[-1] == 429
        assert await statuses(server, wrong[:1], "203.0.113.8") == [401]
        assert await statuses(server, wrong[:1], "203.0.113.9, 203.0.113.7") == [429]


async def test_the_header_is_ignored_where_no_proxy_is_trusted(tmp_path: Path) -> None:
    """A11: else every guess would come from another address."""
    async with running_server(tmp_path, workers=0) as server:
        for number in range(FAILED_AUTH_BURST):
            assert await statuses(server, [of_nobody(1)], f"203.0.113.{number}") == [401]
        assert await statuses(server, [of_nobody(1)], "203.0.113.200") == [429]
