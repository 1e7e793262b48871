"""The registry in force, the contracts that items were submitted under, and targets."""
