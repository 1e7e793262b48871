"""Large documents, read in a separate process."""

READ_HERE_MAX_BYTES = 256 * 1024
"""A larger document is read in a separate process, which takes a third of a second to start."""
READINGS = 2
READINGS_IN_THREADS = 2
READINGS_WAITING_MAX = 20
READING_MEMORY_BYTES = 1536 * 1024 * 1024
READING_CPU_SECONDS = 1_800
READING_NICENESS = 10
