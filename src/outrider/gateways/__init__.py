"""One file per gateway type: what each provider family is told, and how its answers are read."""
