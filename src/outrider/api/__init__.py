"""The HTTP API: requests become calls of the kernel's roles, and their results become responses."""
