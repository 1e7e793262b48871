"""Temporal and Conductor: windows, histories, waits."""

TEMPORAL_HISTORY_EVENTS = 4_000
TEMPORAL_WINDOW_JOBS = 100
TEMPORAL_WINDOW_JOBS_MAX = 500
TEMPORAL_CALLS = 16
TEMPORAL_TASK_FAILURES = 3
"""How often in a row an execution may fail on one workflow task before it is restarted."""
TEMPORAL_CONNECT_SECONDS = 10.0
TEMPORAL_STICKY_SECONDS = 10.0
TEMPORAL_STOP_SECONDS = 300.0
TEMPORAL_WORKFLOWS_CACHED = 500

CONDUCTOR_WINDOW_JOBS = 100
CONDUCTOR_WINDOW_JOBS_MAX = 500
CONDUCTOR_CALLS = 16
CONDUCTOR_TIMEOUT_SECONDS = 10.0
CONDUCTOR_ANSWER_MAX_BYTES = 32 * 1024 * 1024
"""An execution with all its tasks: about 4 kB for each job of its window."""
CONDUCTOR_POLL_SECONDS = 1.0
"""How long Conductor may hold a poll; it allows 5. A stopping worker waits for that."""
CONDUCTOR_RETRY_SECONDS = 1.0
CONDUCTOR_REPORT_RETRY_SECONDS = 0.2
CONDUCTOR_LOOKS = 8
"""Looks at the queue by one worker at once, beside its jobs."""
CONDUCTOR_LOOK_SECONDS = 10.0
CONDUCTOR_HOLD_SECONDS = 1.0
"""A look waits this long itself for what is due soon: Conductor counts in whole seconds."""
CONDUCTOR_IDLE_LOOK_SECONDS = 3_600.0
CONDUCTOR_TASK_RETRIES = 1_000
CONDUCTOR_TASK_FAILURES = 3
"""How often a task may be given back unread before its execution is restarted."""
CONDUCTOR_EXECUTIONS_MOST = 8
"""Concurrent executions of one run: all but the first take due jobs while others wait for slow
ones."""
CONDUCTOR_BESIDE_SECONDS = 1.0
CONDUCTOR_POLLER_SECONDS = 60.0
"""A domain that was not polled for this long has no worker any more."""
CONDUCTOR_STILL_SECONDS = 5.0
"""An execution in which nothing can move for that long is asked to go on; after ten times as long
it is restarted."""
CONDUCTOR_STOP_SECONDS = 300.0
