"""The command line: one file a command group. It wraps the async kernel and adds no rules."""
