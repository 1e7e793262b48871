"""One script per system that is measured. Peers run in environments of their own, so the files
that they share need the standard library only."""
