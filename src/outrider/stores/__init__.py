"""Stores: the SQL behind every named statement, and the drivers that run transactions of them."""
