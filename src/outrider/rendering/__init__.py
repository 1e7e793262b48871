"""Templates become texts in a process of their own, so that a hostile one can only kill that."""
