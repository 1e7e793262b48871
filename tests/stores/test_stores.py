"""Both stores pass the public conformance suite, each on its real database."""

from outrider.testing.store_suite import StoreConformance


class TestStores(StoreConformance):
    """Collected once for each store, through the `store` fixture of tests/conftest.py."""
