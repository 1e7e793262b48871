"""The command line: one file per command group. It wraps the async kernel and adds no rules."""
