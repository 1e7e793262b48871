"""What happens in one transaction, each a script of named statements that any store can run."""
