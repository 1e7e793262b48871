"""Proof: hash chains, seals, and what shows that nothing was changed since."""
