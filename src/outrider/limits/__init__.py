"""Every limit by name, as plain data, a file per room; `settings.py` sets some of them."""
