"""Every limit by name, as plain data, one file per package; `settings.py` sets some of them."""
