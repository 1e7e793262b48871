"""One script per measured system. Peers run in their own environments, so the files that they share
need the standard library only."""
