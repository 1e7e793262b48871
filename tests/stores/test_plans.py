"""No statement has a plan that reads a whole growing table, even one made while it was empty.

Plans are kept for as long as a connection lives, so a bad one made early would cost every window
more the larger the ledger grows.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import apsw
import apsw.ext
import asyncpg
import pytest
import pytest_asyncio

from outrider.bootstrap import make_store
from outrider.stores.postgres import store as postgres
from outrider.stores.sqlite import store as sqlite
from outrider.stores.statements import to_positional
from outrider.testing.postgres import create_database, drop_database
from tests.support.compiled_statements import answering

GROWING = {
    "api_keys", "artifacts", "audience_uploads", "idempotency_records", "retry_exclusions",
    "address_pages", "audience_members", "attempt_history", "campaign_audit_log", "campaign_events",
    "campaign_runs", "campaigns", "channel_outbox", "job_queue", "suppressions", "run_events",
    "run_snapshots", "run_requests", "event_bus_outbox", "event_bus_dead_letters", "alerts",
    "domain_events", "workflow_rules", "workflow_steps", "digests", "digest_entries",
    "receipts", "waiting_receipts", "item_receipts", "deliveries", "run_deliveries",
    "provider_messages", "doubt_checks", "doubt_verdicts",
    "message_events", "callback_endpoints", "event_people",
    "audit_chain", "rollout_steps", "retired_keys", "sealed_pages",
}  # fmt: skip

SMALL_BY_NATURE = {
    "alerts_standing",
    "campaign_audit_log_bypasses",
    "campaign_phases_in_flight",
    "campaign_runs_unfinished",
    "campaign_runs_unrecorded_refusals",
    "campaign_runs_unprojected",
    "campaign_runs_unsealed",
    "channel_outbox_doubted",
    "domain_events_due",
    "doubt_checks_due",
    "erasures_under_way",
    "event_bus_dead_letters_waiting",
    "event_bus_sinks_pkey",
    "job_queue_due",
    "job_queue_failed",
    "job_queue_lanes",
    "job_queue_locked",
    "job_queue_unfinished",
    "job_queue_waiting",
    "paused_targets_pkey",
    "registry_revisions_pkey",
    "rollout_steps_open",
    "run_requests_waiting",
    "target_doors_pkey",
    "unchained_audit_pkey",
    "waiting_receipts_due",
    "waiting_receipts_urgent",
    "workers_pkey",
    "workers_seen",
    "workspaces_pkey",
}
"""Indexes that hold only what somebody has still to deal with, or a few rows a target."""

SORTED_BY_NATURE = {
    "runs_page", "claim_progress", "doubts_page", "doubts_listed", "waiting_workspaces",
    "stalled_lanes", "items_of_run_filtered", "find_duplicates", "closed_doors",
    "disagreeing_phases", "runs_left_running", "watch_events", "target_rates",
    "jobs_held", "silent_holders", "unfinished_runs", "watch_doubts", "oldest_due_by_target",
    "open_runs",
    "receipts_of_item", "evidence_verdicts", "jobs_to_distrust", "lanes_to_distrust",
}  # fmt: skip
"""Pages of what a campaign or a target has a handful of, of what waits for a person, and of a job's
rows; the few receipts of one item; what is looked for among a whole audience, once; what somebody
has parted by hand; and workspaces among events that are overdue, of which there are none while
anybody routes; the few hours of each target that rates are made of; what a page of workers holds,
runs that have not ended, and what a database was doing when it was restored."""


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def planner(postgres_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection to an empty, migrated database that plans as the store does."""
    url = await create_database(postgres_url)
    store = make_store(url)
    await store.migrate()
    await store.close()
    # Its own cache of statements would be deallocated with those of the tests.
    connection = await asyncpg.connect(
        url, server_settings=postgres.PLANS_BY_KEY, statement_cache_size=0
    )
    yield connection
    await connection.close()
    await drop_database(postgres_url, url)


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def forgotten(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """The statement that a test prepares is gone afterwards."""
    yield
    if "planner" in request.fixturenames:
        await request.getfixturevalue("planner").execute("DEALLOCATE ALL")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def reads_all(node: dict[str, Any]) -> bool:
    kind, index = node["Node Type"], node.get("Index Name")
    if kind == "Seq Scan":
        return node["Relation Name"] in GROWING
    if kind in ("Index Scan", "Index Only Scan", "Bitmap Index Scan"):
        return "Index Cond" not in node and index not in SMALL_BY_NATURE
    return False


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, each in postgres.STATEMENTS.items()
        if not each.sql.startswith(("COPY", "LOCK"))
    ),
)
async def test_no_plan_of_postgres_reads_a_whole_table(
    planner: "asyncpg.Connection[asyncpg.Record]", name: str
) -> None:
    sql, parameters = to_positional(postgres.STATEMENTS[name].sql)
    await planner.execute(f"PREPARE statement AS {sql}")
    nothing = f"({', '.join(['NULL'] * len(parameters))})" if parameters else ""
    explained = await planner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE statement{nothing}")
    plan = json.loads(explained)[0]["Plan"]
    assert [node for node in nodes(plan) if reads_all(node)] == []


async def test_appending_looks_its_keys_up_and_never_reads_a_whole_log(
    planner: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    sql, parameters = to_positional(postgres.STATEMENTS["append_run_events"].sql)
    await planner.execute(f"PREPARE statement AS {sql}")
    nothing = ", ".join(["NULL"] * len(parameters))
    explained = await planner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE statement({nothing})")
    plan = json.loads(explained)[0]["Plan"]
    reading = [
        node["Index Cond"]
        for node in nodes(plan)
        if node.get("Index Name", "").startswith("run_events") and "Index Cond" in node
    ]
    assert reading
    assert all("idempotency_key" in condition for condition in reading)


@pytest.mark.parametrize(
    "name",
    [
        "match_plain_receipts", "claimed_receipts", "items_of_references",
        "items_of_provider_messages", "hand_over_receipts", "handed_over_receipts",
        "receipts_page", "receipts_of_item", "unmatched_receipts_page", "latest_keywords",
    ],
)  # fmt: skip
async def test_no_receipt_is_looked_for_among_all_of_its_workspace(
    planner: "asyncpg.Connection[asyncpg.Record]", name: str
) -> None:
    """While there are few rows, an index by workspace alone looks as good as any, and the plan is
    kept when there are many."""
    sql, parameters = to_positional(postgres.STATEMENTS[name].sql)
    await planner.execute(f"PREPARE statement AS {sql}")
    nothing = ", ".join(["NULL"] * len(parameters))
    explained = await planner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE statement({nothing})")
    conditions = [
        node["Index Cond"]
        for node in nodes(json.loads(explained)[0]["Plan"])
        if node.get("Relation Name") in ("receipts", "channel_outbox") and "Index Cond" in node
    ]
    assert conditions
    by_row = re.compile(r"\b(id|idempotency_key|sender) (=|<|>=)")
    assert [each for each in conditions if not by_row.search(each)] == []


async def test_a_window_of_receipts_is_never_compared_with_itself_row_by_row(
    planner: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    """A table that was empty when it was last looked at: a plan expects one row of a window."""
    await planner.execute("VACUUM waiting_receipts")
    await planner.execute("VACUUM receipts")
    sql, parameters = to_positional(postgres.STATEMENTS["match_plain_receipts"].sql)
    await planner.execute(f"PREPARE statement AS {sql}")
    nothing = ", ".join(["NULL"] * len(parameters))
    explained = await planner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE statement({nothing})")
    # As before, for the tests after this one.
    await planner.execute(
        "UPDATE pg_class SET reltuples = -1 WHERE relname IN ('waiting_receipts', 'receipts')"
    )
    plan = list(nodes(json.loads(explained)[0]["Plan"]))
    looped = [node["Plans"][1]["Node Type"] for node in plan if node["Node Type"] == "Nested Loop"]
    assert looped
    assert "CTE Scan" not in looped
    read = {node.get("Index Name") for node in plan if node.get("Relation Name") == "receipts"}
    assert read == {"receipts_pkey"}


@pytest.mark.parametrize(
    "name", sorted(name for name, each in postgres.STATEMENTS.items() if ":most" in each.sql)
)
async def test_no_page_of_postgres_sorts_more_than_the_page(
    planner: "asyncpg.Connection[asyncpg.Record]", name: str
) -> None:
    sql, parameters = to_positional(postgres.STATEMENTS[name].sql)
    await planner.execute(f"PREPARE statement AS {sql}")
    nothing = ", ".join(["NULL"] * len(parameters))
    explained = await planner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE statement({nothing})")
    plan = json.loads(explained)[0]["Plan"]
    sorting = [
        child["Sort Key"]
        for node in nodes(plan)
        if node["Node Type"] == "Limit"
        for child in nodes(node)
        if "Sort Key" in child and name not in SORTED_BY_NATURE
    ]
    assert sorting == []


DOUBTS = "channel_outbox_doubted"
OF_DOUBTS = (
    "count_trouble", "doubts_by_target", "doubts_counted", "doubts_listed",
    "doubts_page",
)  # fmt: skip


@pytest.mark.parametrize("name", OF_DOUBTS)
async def test_doubts_are_found_without_reading_the_ledger_of_a_workspace(
    planner: "asyncpg.Connection[asyncpg.Record]", embedded: apsw.Connection, name: str
) -> None:
    sql, parameters = to_positional(postgres.STATEMENTS[name].sql)
    await planner.execute(f"PREPARE statement AS {sql}")
    nothing = ", ".join(["NULL"] * len(parameters))
    explained = await planner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE statement({nothing})")
    used = {
        node["Index Name"]
        for node in nodes(json.loads(explained)[0]["Plan"])
        if node.get("Index Name", "").partition("_")[0] in ("channel", "idx")
    }
    assert used == {DOUBTS}
    sql = sqlite.STATEMENTS[name].sql
    given = dict.fromkeys(to_positional(sql)[1])
    steps = [str(row[3]) for row in embedded.execute(f"EXPLAIN QUERY PLAN {sql}", given)]
    read = [step for step in steps if step.split()[1] in ("o", "channel_outbox")]
    assert len(read) == 1
    assert DOUBTS in read[0]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    """Connected as the store is: its settings have a say in the plans."""
    connection = sqlite.SqliteStore(tmp_path_factory.mktemp("plans") / "plans.db")._connect()
    # Their plans list the search for children that a new parent saves, which is never made.
    connection.execute("PRAGMA foreign_keys = off")
    for migration in sqlite.MIGRATIONS:
        connection.execute(migration.sql)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", sorted(sqlite.STATEMENTS))
async def test_no_plan_of_sqlite_reads_a_whole_table(embedded: apsw.Connection, name: str) -> None:
    """Whatever the values are: left to itself, SQLite plans anew for some of them."""
    steps = []
    # A few are two statements, which run one after the other.
    for sql in sqlite.STATEMENTS[name].sql.split(";\n"):
        for value in (None, 0, 1):
            given = {each: "[]" if each == "window" else value for each in to_positional(sql)[1]}
            steps += [row[3] for row in embedded.execute(f"EXPLAIN QUERY PLAN {sql}", given)]
    scans = [step for step in steps if isinstance(step, str) and step.startswith("SCAN ")]
    tables = _tables_by_alias(sqlite.STATEMENTS[name].sql)
    assert [scan for scan in scans if _reads_all(scan, tables)] == []


def _tables_by_alias(sql: str) -> dict[str, set[str]]:
    """What a plan calls a table by: an alias may stand for another one in another query."""
    tables: dict[str, set[str]] = {}
    for table, alias in re.findall(r"\b(?:FROM|JOIN|UPDATE|INTO) (\w+)(?: AS)? (\w+)", sql):
        tables.setdefault(alias, set()).add(table)
    return tables


def _reads_all(scan: str, tables: dict[str, set[str]]) -> bool:
    table, _, how = scan.removeprefix("SCAN ").partition(" ")
    by_index = how.partition("INDEX ")[2]
    grows = not GROWING.isdisjoint(tables.get(table, set()) | {table})
    return grows and by_index not in SMALL_BY_NATURE


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, each in postgres.STATEMENTS.items()
        if not each.sql.startswith(("COPY", "LOCK", "SELECT pg_advisory"))
    ),
)
async def test_both_stores_answer_with_the_same_columns(
    planner: "asyncpg.Connection[asyncpg.Record]", embedded: apsw.Connection, name: str
) -> None:
    prepared = await planner.prepare(to_positional(postgres.STATEMENTS[name].sql)[0])
    in_postgres = [attribute.name for attribute in prepared.get_attributes()]
    last = answering(sqlite.STATEMENTS[name].sql)
    in_sqlite = [column[0] for column in apsw.ext.query_info(embedded, last).description]
    assert len(in_postgres) == len(in_sqlite)
    # What is computed or constant has a name of each one's own.
    assert [
        (one, other)
        for one, other in zip(in_postgres, in_sqlite, strict=True)
        if re.fullmatch("[a-z_]+", other) and other != "false" and one != other
    ] == []


BY_INDEX = {
    "pages_with_address": {"address_pages_pkey"},
    "members_at": {"audience_members_pkey"},
    "intents_to": {"channel_outbox_intents_to"},
    "workflow_items_to": {"channel_outbox_heard"},
    "workflow_items_of_recipient": {"channel_outbox_workflow_recipients"},
    "receipts_from": {"receipts_by_sender"},
    "events_naming": {"event_people_pkey"},
}
"""What is asked about one person, and the index that answers it however large the tables are."""


@pytest.mark.parametrize("name", sorted(BY_INDEX))
async def test_a_person_is_found_by_the_index_made_for_it(
    planner: "asyncpg.Connection[asyncpg.Record]", embedded: apsw.Connection, name: str
) -> None:
    sql, parameters = to_positional(postgres.STATEMENTS[name].sql)
    await planner.execute(f"PREPARE statement AS {sql}")
    nothing = ", ".join(["NULL"] * len(parameters))
    explained = await planner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE statement({nothing})")
    used = {
        node["Index Name"]
        for node in nodes(json.loads(explained)[0]["Plan"])
        if "Index Name" in node and not node["Index Name"].startswith("campaigns_")
    }
    assert used == BY_INDEX[name]
    sql = sqlite.STATEMENTS[name].sql
    given = dict.fromkeys(to_positional(sql)[1])
    steps = [str(row[3]) for row in embedded.execute(f"EXPLAIN QUERY PLAN {sql}", given)]
    (index,) = BY_INDEX[name]
    named = "PRIMARY KEY" if index.endswith("_pkey") else f"INDEX {index}"
    assert any(f"{named} (" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps
