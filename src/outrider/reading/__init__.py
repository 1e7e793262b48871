"""Documents are validated in a separate process, so that a large one delays no other request."""
