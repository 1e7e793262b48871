"""The registry in force, the contracts items were submitted under, and targets."""
