"""Templates become texts in a separate process, so that a hostile one can only kill that."""
