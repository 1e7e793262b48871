"""Public kits for testing against Outrider: conformance suites, a still clock, real servers."""
