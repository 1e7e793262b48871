"""The providers' families: one file each, with its requests, codes, receipts and look-ups."""
