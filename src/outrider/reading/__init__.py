"""Documents are judged in a process of their own, so that a large one costs nobody else's time."""
