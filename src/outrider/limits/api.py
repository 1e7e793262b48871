"""The HTTP surface and its process."""

from dataclasses import dataclass

HANDLES_WANTED = 65_536
"""File handles that a process asks for if its hard limit allows it."""
HANDLES_RESERVED = 256
"""Handles never used for client connections: databases, gateways and files need them."""
CONNECTIONS_MIN = 64
READY_FREE_BYTES = 16 * 1024 * 1024
"""With less free space on its database's disk, a server is not ready."""
UPLOAD_PIECE_BYTES = 1024 * 1024
BODY_DRAINED_BYTES = 8 * 1024 * 1024
TURNS_RETRY_SECONDS = 2
GC_NEW_OBJECTS = 50_000
GC_YOUNG_ROUNDS = 10
GC_OLD_ROUNDS = 10
THREAD_SWITCH_SECONDS = 0.0005
"""Python's own is ten times as long, and each hand-over between threads may take that."""


@dataclass(frozen=True)
class ApiLimits:
    """Every body, wait, stream and stop of the HTTP server."""

    body_max_bytes: int = 1024 * 1024
    form_max_bytes: int = 4_096
    intent_batch_max_bytes: int = 8 * 1024 * 1024
    campaign_max_bytes: int = 64 * 1024 * 1024
    upload_max_bytes: int = 2 * 1024 * 1024 * 1024
    bodies_bytes: int = 64 * 1024 * 1024
    """Held in memory at once, over all workspaces; bodies larger than a form count."""
    bodies_workspace_bytes: int = 32 * 1024 * 1024
    uploads_bytes: int = 8 * 1024 * 1024 * 1024
    """Held in files at once, over all workspaces."""
    uploads_workspace_bytes: int = 4 * 1024 * 1024 * 1024
    body_wait_seconds: float = 5.0
    json_here_max_bytes: int = 32 * 1024
    """Larger JSON is read in a thread."""
    header_seconds: float = 10.0
    """Time limit for the head of a request to arrive."""
    body_silence_seconds: float = 30.0
    """Longest pause while a body is being received."""
    arriving_per_address: int = 256
    """Connections per client whose request has not arrived; beyond it the oldest is cut."""
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
    """Concurrent, over all workspaces: the store has other connections for everything else."""
    reads_per_workspace: int = 2
    reads_waiting_per_workspace: int = 200
    read_patience_seconds: float = 0.3
    """After this, the database is asked whether it answers at all."""
    database_silence_seconds: float = 0.5
    """After this much more silence it is unavailable; both together are under a second."""
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
