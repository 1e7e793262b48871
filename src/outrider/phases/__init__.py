"""What the phases around a launch do: a file per handler, which sees its `PhaseContext` only."""
