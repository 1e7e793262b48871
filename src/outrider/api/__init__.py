"""The HTTP API: requests become calls of the kernel's roles, and what they return, answers."""
