"""Locus: know where every tensor is.

`locus.simulate()` gives a PyTorch program CUDA devices made of software. Importing this package imports no PyTorch.

PYTEST_DONT_REWRITE: with LOCUS_SIMULATE set, the package is there before pytest, which would warn about that.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself takes longer to import than all of this; every Python process would pay for it
if TYPE_CHECKING:
    from typing import Any

    from locus import errors
    from locus.api.dry import is_known, known
    from locus.api.guarding import explain, guard
    from locus.api.ledgers import ledger, no_syncs, no_transfers
    from locus.api.looking import history, where
    from locus.api.placing import last_placement, place
    from locus.api.policies import policy
    from locus.api.simulating import simulate
    from locus.errors import PlacementWarning

__version__ = "0.1.0"
"""The version of Locus."""
__documentation__ = "https://torch-locus.readthedocs.io/en/latest/"
"""Where the documentation is."""

__all__ = [
    "PlacementWarning",
    "__version__",
    "errors",
    "explain",
    "guard",
    "history",
    "is_known",
    "known",
    "last_placement",
    "ledger",
    "no_syncs",
    "no_transfers",
    "place",
    "policy",
    "simulate",
    "where",
]

# Public name -> the module that defines it; loaded at first use, so that `import locus` stays cheap.
_LAZY = {
    "explain": "locus.api.guarding",
    "guard": "locus.api.guarding",
    "simulate": "locus.api.simulating",
    "is_known": "locus.api.dry",
    "known": "locus.api.dry",
    "errors": "locus.errors",
    "where": "locus.api.looking",
    "history": "locus.api.looking",
    "place": "locus.api.placing",
    "last_placement": "locus.api.placing",
    "ledger": "locus.api.ledgers",
    "no_syncs": "locus.api.ledgers",
    "no_transfers": "locus.api.ledgers",
    "policy": "locus.api.policies",
    "PlacementWarning": "locus.errors",
    "load_ipython_extension": "locus.notebook.extension",  # %load_ext locus
}


def __getattr__(name: str) -> Any:
    module_name = _LAZY.get(name)
    if module_name is None:
        raise AttributeError(f"module 'locus' has no attribute {name!r}")
    module = __import__(module_name, fromlist=[name])
    value = module if module_name == f"locus.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
