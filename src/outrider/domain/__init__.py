"""Pure rules: no input or output, no clock, no randomness, standard library only."""
