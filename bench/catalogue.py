"""The measured systems: each one's script, environment, requirements and promises."""

from dataclasses import dataclass, field
from enum import StrEnum


class Measure(StrEnum):
    PHASES = "phases"
    """Everything is enqueued first, then everything is drained."""
    END_TO_END = "end_to_end"
    LATENCY = "latency"
    IDLE = "idle"
    WAITING = "waiting"
    TERMINAL = "terminal"


class Group(StrEnum):
    OURS = "Outrider"
    LIMIT = "limit"
    PEER = "peer"


class Server(StrEnum):
    POSTGRES = "postgres"
    REDIS = "redis"
    TEMPORAL = "temporal"
    SANDBOX = "sandbox"


@dataclass(frozen=True)
class System:
    """`environment` None is Outrider's own. A slow system gets a tenth of the messages."""

    name: str
    label: str
    group: Group
    script: str
    environment: str | None
    servers: frozenset[Server]
    measures: frozenset[Measure]
    workers: int = 1
    options: dict[str, str] = field(default_factory=dict)
    slow: bool = False
    most_waiting: int = 1_000_000
    promise: str = ""
    tuning: str = ""


USUAL = frozenset({Measure.PHASES, Measure.END_TO_END, Measure.LATENCY, Measure.IDLE})
GROWING = USUAL | {Measure.WAITING, Measure.TERMINAL}
THROUGHPUT = frozenset({Measure.PHASES, Measure.END_TO_END})
WHOLE = frozenset({Measure.END_TO_END})
POSTGRES = frozenset({Server.POSTGRES})
NOTHING: frozenset[Server] = frozenset()

OUTRIDER_PROMISE = (
    "Every message has a ledger row before its call and a recorded end after it. A call whose "
    "outcome is unknown is in doubt and is not repeated, unless its provider recognises "
    "references: at most once, or exactly once if the provider dedupes."
)
LIMIT_PROMISE = "None beyond the rows: no screening, rendering, retries, pauses, rescue or doubt."
AT_LEAST_ONCE = (
    "At least once: after a crash a handler runs again, whether its call arrived or not."
)

OUTRIDER = "outrider-postgres"
"""The baseline of ratios."""
LIMITS = {"postgres": "limit-postgres", "sqlite": "limit-sqlite", "http": "limit-http"}

SYSTEMS = (
    System(
        OUTRIDER, "Outrider, Postgres, one worker", Group.OURS, "outrider", None, POSTGRES,
        GROWING, promise=OUTRIDER_PROMISE, tuning="defaults; batches of 500",
    ),
    System(
        "outrider-postgres-2", "Outrider, Postgres, two workers", Group.OURS, "outrider", None,
        POSTGRES, THROUGHPUT, workers=2, promise=OUTRIDER_PROMISE,
        tuning="two worker processes beside the one that launches",
    ),
    System(
        "outrider-postgres-beside", "Outrider, Postgres, worker in another process", Group.OURS,
        "outrider", None, POSTGRES, frozenset({Measure.LATENCY, Measure.IDLE}),
        options={"worker": "beside"}, promise=OUTRIDER_PROMISE, tuning="defaults",
    ),
    System(
        "outrider-sqlite", "Outrider, SQLite, one worker", Group.OURS, "outrider", None, NOTHING,
        USUAL | {Measure.WAITING}, promise=OUTRIDER_PROMISE, tuning="defaults; batches of 500",
    ),
    System(
        "outrider-temporal", "Outrider, Postgres, on Temporal", Group.OURS, "outrider", None,
        POSTGRES | {Server.TEMPORAL}, THROUGHPUT, options={"engine": "temporal"},
        promise=OUTRIDER_PROMISE, tuning="defaults; a job of 500 per activity",
    ),
    System(
        "outrider-http", "Outrider, Postgres, over HTTP", Group.OURS, "outrider", None,
        POSTGRES | {Server.SANDBOX}, WHOLE, options={"gateway": "sms"}, promise=OUTRIDER_PROMISE,
        tuning="defaults: 64 calls at once for each job",
    ),
    System(
        "outrider-smtp", "Outrider, Postgres, over SMTP", Group.OURS, "outrider", None,
        POSTGRES | {Server.SANDBOX}, WHOLE, options={"gateway": "smtp"}, slow=True,
        promise=OUTRIDER_PROMISE, tuning="defaults: 16 connections",
    ),
    System(
        LIMITS["postgres"], "hand-written SQL, Postgres, one process", Group.LIMIT, "raw_sql", None,
        POSTGRES, GROWING, promise=LIMIT_PROMISE, tuning="COPY; windows of 500, four at once",
    ),
    System(
        "limit-postgres-2", "hand-written SQL, Postgres, two processes", Group.LIMIT, "raw_sql",
        None, POSTGRES, THROUGHPUT, workers=2, promise=LIMIT_PROMISE, tuning="the same, twice",
    ),
    System(
        LIMITS["sqlite"], "hand-written SQL, SQLite", Group.LIMIT, "raw_sql", None, NOTHING,
        USUAL | {Measure.WAITING}, promise=LIMIT_PROMISE, tuning="windows of 500; looks every 2 ms",
    ),
    System(
        LIMITS["http"], "Outrider's HTTP client alone", Group.LIMIT, "raw_sql", None,
        frozenset({Server.SANDBOX}), WHOLE, options={"gateway": "sms"},
        promise="None: nothing is recorded.", tuning="64 calls at once",
    ),
    System(
        "limit-aiohttp", "aiohttp alone", Group.LIMIT, "raw_sql", None,
        frozenset({Server.SANDBOX}), WHOLE, options={"gateway": "sms", "client": "aiohttp"},
        promise="None: nothing is recorded.", tuning="64 calls at once",
    ),
    System(
        "graphile-worker", "graphile-worker (Node), two processes", Group.PEER, "graphile",
        "graphile", POSTGRES, USUAL | {Measure.WAITING}, workers=2,
        promise=f"{AT_LEAST_ONCE} Finished jobs are deleted, so there is no record of them.",
        tuning="concurrentJobs 24, localQueue 500, completions in batches (its performance page)",
    ),
    System(
        "pgqueuer", "PgQueuer, two processes", Group.PEER, "pgqueuer", "pgqueuer", POSTGRES,
        GROWING, workers=2, promise=f"{AT_LEAST_ONCE} A log keeps how each job ended.",
        tuning="batch_size 500, two processes",
    ),
    System(
        "pgqueuer-1", "PgQueuer, one process", Group.PEER, "pgqueuer", "pgqueuer", POSTGRES,
        THROUGHPUT, promise=f"{AT_LEAST_ONCE} A log keeps how each job ended.",
        tuning="batch_size 500",
    ),
    System(
        "temporal", "Temporal, an activity per 500", Group.PEER, "temporal", "temporal",
        frozenset({Server.TEMPORAL}), USUAL, workers=2,
        promise=f"{AT_LEAST_ONCE} Here 500 messages at a time; history of workflows, not messages.",
        tuning="500 messages per activity; no sandbox; its development server on SQLite",
    ),
    System(
        "huey", "Huey, SQLite", Group.PEER, "huey_sqlite", "huey", NOTHING, USUAL, slow=True,
        promise="At most once: a task is deleted when it is taken; results are kept.",
        tuning="fsync on, polling every 5 ms",
    ),
    System(
        "absurd", "absurd, two processes", Group.PEER, "absurd", "absurd", POSTGRES, USUAL,
        workers=2, slow=True, promise=f"{AT_LEAST_ONCE} Tasks and their runs are kept.",
        tuning="batch_size 100, polling every 5 ms",
    ),
    System(
        "celery", "Celery, Redis, two processes", Group.PEER, "celery_redis", "celery",
        frozenset({Server.REDIS}), USUAL, workers=2, slow=True,
        promise=f"{AT_LEAST_ONCE} Redis may lose its last second; results expire after a day.",
        tuning="prefork, prefetch multiplier 64, acknowledged late",
    ),
    System(
        "procrastinate", "Procrastinate, two processes", Group.PEER, "procrastinate",
        "procrastinate", POSTGRES, USUAL, workers=2, slow=True,
        promise=f"{AT_LEAST_ONCE} Stalled jobs are retried by hand or by a periodic task.",
        tuning="concurrency 20, deferred in batches, LISTEN",
    ),
    System(
        "dbos", "DBOS, two processes", Group.PEER, "dbos", "dbos", POSTGRES, USUAL, workers=2,
        slow=True, promise=f"{AT_LEAST_ONCE} Workflows and steps are kept.",
        tuning="a workflow without a step, worker_concurrency 50, polling every 20 ms",
    ),
)  # fmt: skip

BY_NAME = {system.name: system for system in SYSTEMS}


def limit_of(system: System) -> str:
    """Which limit a system is compared with."""
    if Server.SANDBOX in system.servers:
        return LIMITS["http"]
    return LIMITS["postgres"] if system.servers else LIMITS["sqlite"]
