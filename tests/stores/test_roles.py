"""`deploy/postgres/roles.sql`: one role migrates, another one runs Outrider and can do no more."""

import asyncio
import os
import shutil
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from outrider.bootstrap import make_store
from outrider.testing.launches import registry, target
from outrider.testing.postgres import create_database, drop_database
from tests.support.api_server import ApiServer, campaign

COMPOSE = Path(__file__).parents[2] / "deploy/compose"
SCRIPT = (Path(__file__).parents[2] / "deploy/postgres/roles.sql").read_text()
WORK_SECONDS = 60
BEYOND_ITS_RIGHTS = (
    "DROP TABLE channel_outbox",
    "TRUNCATE campaign_runs CASCADE",
    "ALTER TABLE channel_outbox DISABLE TRIGGER ALL",
    "ALTER TABLE channel_outbox ADD COLUMN mine text",
    "CREATE TABLE mine (id int)",
    "CREATE OR REPLACE FUNCTION outrider_refuse() RETURNS trigger LANGUAGE sql AS ''",
    "INSERT INTO schema_migrations VALUES ('9999_mine', '', now())",
    "DELETE FROM schema_migrations",
    "SET session_replication_role = replica",
)


@dataclass(frozen=True)
class Roles:
    admin_url: str
    suffix: str

    @property
    def script(self) -> str:
        return SCRIPT.replace("outrider_migrator", self.migrator).replace("outrider_app", self.app)

    @property
    def migrator(self) -> str:
        return f"migrator_{self.suffix}"

    @property
    def app(self) -> str:
        return f"app_{self.suffix}"

    def url(self, role: str) -> str:
        parts = urlsplit(self.admin_url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{role}@{host}"))

    async def run(self, *statements: str, role: str | None = None) -> None:
        connection = await asyncpg.connect(self.url(role) if role else self.admin_url)
        try:
            for each in statements:
                await connection.execute(each)
        finally:
            await connection.close()


@pytest.fixture
async def roles(postgres_url: str) -> AsyncIterator[Roles]:
    """Of names that no other test uses: roles belong to the whole server."""
    url = await create_database(postgres_url)
    made = Roles(url, uuid.uuid4().hex[:8])
    yield made
    await drop_database(postgres_url, url)
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(f"DROP ROLE {made.migrator}, {made.app}")
    await connection.close()


async def migrate(url: str) -> None:
    store = make_store(url)
    await store.migrate()
    await store.close()


async def prepared(roles: Roles) -> None:
    """As the script's first lines say."""
    await roles.run(roles.script)
    await migrate(roles.url(roles.migrator))


async def sent_with(roles: Roles, folder: Path) -> None:
    """A campaign, with a server and a worker of their own processes, both as the lesser role."""
    (folder / "registry.json").write_bytes(registry(target("noop", "noop", "noop:")))
    (folder / "url").write_text(roles.url(roles.app) + "\n")
    (folder / "key").write_text("a-root-key-that-is-long-enough-to-be-taken-" + "0" * 20)
    settings = {
        "OUTRIDER_DATABASE_URL_FILE": str(folder / "url"),
        "OUTRIDER_ROOT_KEY_FILE": str(folder / "key"),
        "OUTRIDER_REGISTRY": str(folder / "registry.json"),
    }
    server = ApiServer(settings, folder, ("--workers", "0"))
    try:
        await server.start()
        server.key = (folder / "key").read_text()
        assert (await server.get("/readyz"))["status"] == "ready"
        campaign_id = (await server.post("/campaigns", campaign(5)))["campaignId"]
        await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "outrider", "work", "--until-idle", "--json",
            cwd=folder, env={**os.environ, **settings}, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(WORK_SECONDS):
            _, log = await worker.communicate()
        assert worker.returncode == 0, log.decode()
        phase = (await server.get(f"/campaigns/{campaign_id}/status"))["phases"]["launch"]
        assert (phase["state"], phase["accounting"]["sent"]) == ("completed", 5)
        assert "permission denied" not in log.decode() + server.log
    finally:
        await server.close()


async def test_a_server_and_a_worker_run_with_the_lesser_role(roles: Roles, tmp_path: Path) -> None:
    await prepared(roles)
    await sent_with(roles, tmp_path)


async def test_an_installation_with_one_role_is_taken_over(roles: Roles, tmp_path: Path) -> None:
    await migrate(roles.admin_url)
    await roles.run(roles.script)
    await sent_with(roles, tmp_path)
    await roles.run("ALTER TABLE channel_outbox ADD COLUMN later text", role=roles.migrator)


async def test_the_lesser_role_can_change_neither_tables_nor_triggers(roles: Roles) -> None:
    await prepared(roles)
    for statement in BEYOND_ITS_RIGHTS:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await roles.run(statement, role=roles.app)


async def test_the_list_of_migrations_is_the_one_that_outrider_creates(
    roles: Roles, postgres_url: str
) -> None:
    columns = """
        SELECT column_name, data_type, is_nullable FROM information_schema.columns
        WHERE table_name = 'schema_migrations' ORDER BY ordinal_position
    """
    await roles.run(roles.script, roles.script)
    url = await create_database(postgres_url)
    await migrate(url)
    found = []
    for each in (url, roles.admin_url):
        connection = await asyncpg.connect(each)
        found.append(await connection.fetch(columns))
        await connection.close()
    await drop_database(postgres_url, url)
    assert len(found[0]) == 4
    assert found[0] == found[1]


@pytest.mark.skipif(not shutil.which("psql"), reason="psql is not installed")
async def test_the_compose_file_makes_both_roles_with_their_passwords(
    roles: Roles, tmp_path: Path
) -> None:
    """`deploy/compose/init-db.sh` as it is, but for names and places."""
    (tmp_path / "roles.sql").write_text(roles.script)
    for name in ("app", "migrator"):
        (tmp_path / f"{name}_password").write_text(f"it's {name}'s")
    script = (COMPOSE / "init-db.sh").read_text().replace("/run/secrets/", f"{tmp_path}/")
    script = script.replace("/roles/roles.sql", f"{tmp_path}/roles.sql")
    script = script.replace('"outrider_$role"', f'"${{role}}_{roles.suffix}"')
    script = script.replace("--username postgres --dbname outrider", f"-d '{roles.admin_url}'")
    shell = await asyncio.create_subprocess_exec("sh", "-c", script)
    assert await shell.wait() == 0
    connection = await asyncpg.connect(roles.admin_url)
    rows = await connection.fetch(
        "SELECT rolpassword LIKE 'SCRAM-SHA-256$%' FROM pg_authid WHERE rolname = ANY($1)",
        [roles.app, roles.migrator],
    )
    await connection.close()
    assert [row[0] for row in rows] == [True, True]


async def test_tables_of_later_migrations_can_be_used_at_once(roles: Roles) -> None:
    await prepared(roles)
    await roles.run("CREATE TABLE later (id serial, what text)", role=roles.migrator)
    await roles.run("INSERT INTO later (what) VALUES ('row')", role=roles.app)
