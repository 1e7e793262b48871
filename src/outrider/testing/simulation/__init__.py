"""The real kernel in a world that a seed decides: time, ids, providers, crashes and controls.

`python -m outrider.testing.simulation --seeds 100` runs a hundred worlds. Each has several workers
over one database, which are killed, frozen and restarted at any call of a port; providers that lose
answers; a database that fails and forgets to say that it committed; and people who pause, resume
and settle doubts. Afterwards nothing may be doubled, lost or stuck. A seed replays exactly.
"""
