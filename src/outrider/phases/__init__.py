"""The phases around a launch: one file per handler, which only sees its `PhaseContext`."""
