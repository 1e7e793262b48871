"""One file per gateway type: what each provider family is sent, and how its answers are read."""
