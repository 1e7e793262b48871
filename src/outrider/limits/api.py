"""The HTTP surface and its process."""

from dataclasses import dataclass

HANDLES_WANTED = 65_536
"""File handles that a process asks for where it may have more than it was given."""
HANDLES_RESERVED = 256
"""Of these none is for a client's connection: databases, gateways and files need them."""
CONNECTIONS_MIN = 64
READY_FREE_BYTES = 16 * 1024 * 1024
"""With less room on the disk of its database a server is not ready."""
UPLOAD_PIECE_BYTES = 1024 * 1024
BODY_DRAINED_BYTES = 8 * 1024 * 1024
TURNS_RETRY_SECONDS = 2
GC_NEW_OBJECTS = 50_000
GC_YOUNG_ROUNDS = 10
GC_OLD_ROUNDS = 10


@dataclass(frozen=True)
class ApiLimits:
    """Every body, wait, stream and stop of the HTTP server."""

    body_max_bytes: int = 1024 * 1024
    form_max_bytes: int = 4_096
    intent_batch_max_bytes: int = 8 * 1024 * 1024
    campaign_max_bytes: int = 64 * 1024 * 1024
    upload_max_bytes: int = 2 * 1024 * 1024 * 1024
    bodies_bytes: int = 64 * 1024 * 1024
    """In memory at once, of all workspaces; what is larger than a form counts."""
    bodies_workspace_bytes: int = 32 * 1024 * 1024
    uploads_bytes: int = 8 * 1024 * 1024 * 1024
    """In files at once, of all workspaces."""
    uploads_workspace_bytes: int = 4 * 1024 * 1024 * 1024
    body_wait_seconds: float = 5.0
    json_here_max_bytes: int = 32 * 1024
    """Larger JSON is read in a thread."""
    header_seconds: float = 10.0
    """In which the head of a request has to arrive."""
    body_silence_seconds: float = 30.0
    """For so long nothing of a body that is due may come."""
    arriving_per_address: int = 256
    """Connections of one client whose request has not arrived; the oldest of more is cut."""
    page_default: int = 100
    page_max: int = 1_000
    cursor_max_characters: int = 8_192
    retry_after_seconds: int = 1
    idempotency_wait_seconds: float = 10.0
    idempotency_poll_seconds: float = 0.02
    idempotency_poll_most_seconds: float = 0.5
    streams: int = 1_000
    streams_per_workspace: int = 250
    streams_per_key: int = 100
    reads: int = 4
    """At once, of all workspaces: the store has connections beside these for everything else."""
    reads_per_workspace: int = 2
    reads_waiting_per_workspace: int = 200
    read_patience_seconds: float = 0.3
    """Then the database is asked whether it is there at all."""
    database_silence_seconds: float = 0.5
    """A database that does not answer that for so long is away; both together are below a second"""
    check_seconds: float = 60.0
    """A check of the database that takes longer has failed; SQLite gives up a write well before."""
    redis_silence_seconds: float = 0.5
    stream_ping_seconds: float = 15.0
    stream_send_seconds: float = 20.0
    stream_recheck_seconds: float = 5.0
    stream_campaigns: int = 50
    throughput_buckets: int = 500
    stop_seconds: float = 10.0
    worker_stop_seconds: float = 300.0
    child_restart_seconds: float = 1.0
