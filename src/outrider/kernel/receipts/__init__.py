"""The way back: receipts taken, matched with their items, and what follows from them."""
