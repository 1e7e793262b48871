"""The composition root: the only place that knows concrete classes.

Settings go in; a wired `Outrider` comes out, from which entry points take the roles they need. Each
file here wires one package of the kernel; `base.py` says how they fit together.
"""

from outrider.bootstrap.contracts import load_registry, make_gateways, target_policy
from outrider.bootstrap.engines import engine_maker, make_engine
from outrider.bootstrap.outrider import Outrider, open_outrider
from outrider.bootstrap.storage import make_artifacts, make_store

__all__ = [
    "Outrider",
    "engine_maker",
    "load_registry",
    "make_artifacts",
    "make_engine",
    "make_gateways",
    "make_store",
    "open_outrider",
    "target_policy",
]
