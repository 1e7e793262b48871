"""Who may do what: keys, sessions, idempotency, opt-outs."""
