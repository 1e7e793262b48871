"""What the phases around a launch do: a file a handler, each at its `Desk` and nowhere else."""
