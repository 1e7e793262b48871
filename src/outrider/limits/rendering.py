"""Templates: processes, memory, time."""

RENDER_CHILDREN = 3
"""Render processes of a role; a workspace has one of them at a time."""
RENDER_WINDOW_SECONDS = 4.0
ROUTING_RENDER_SECONDS = 4.0
RENDER_START_SECONDS = 20.0
RENDER_ITEM_CPU_SECONDS = 0.25
"""Fuel stops plain instructions in a fifth of it; the rest is for a single slow instruction."""
RENDER_SLOW_SECONDS = 60.0
"""How long a workspace that killed a render process shares one with others that did."""
RENDER_SLOW_NICENESS = 10
RENDER_GUILTY_MAX = 10_000
PREVIEWS_WAITING_MAX = 50
RENDER_MEMORY_BYTES = 512 * 1024 * 1024
RENDER_FUEL = 200_000
RENDER_DEATHS_PER_WINDOW = 3
RENDER_REQUEST_BYTES = 4 * 1024 * 1024
RENDER_CHECK_HERE_MAX_CHARACTERS = 4_096
