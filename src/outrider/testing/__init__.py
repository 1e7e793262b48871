"""Public kits for testing against Outrider: conformance suites, a manual clock, real servers.

A name is imported on first use: the suites need pytest, and the gateways' suite needs the
simulator's extra.
"""

_HOMES = {
    "clock": "FakeClock",
    "engine_suite": "EngineBench EngineConformance engine_bench",
    "event_log_suite": "EventLogBench EventLogConformance",
    "gateway_suite": "GatewayBench GatewayConformance",
    "idempotency_suite": "IdempotencyBench IdempotencyConformance",
    "postgres": "PrivatePostgres",
    "receipt_suite": "ReceiptBench ReceiptConformance",
    "store_suite": "StoreConformance",
}
"""Where each public name is defined; type checkers read it in the stub beside this file."""
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'outrider.testing' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"outrider.testing.{_HOME[name]}"), name)
    globals()[name] = found
    return found
