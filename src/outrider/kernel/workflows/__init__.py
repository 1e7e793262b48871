"""Domain events and what follows from them: rules, plans, messages, digests."""
