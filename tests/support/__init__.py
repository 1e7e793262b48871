"""Support of the tests that look from outside: witnesses of what was sent, and deployments."""
