"""The selection of the engine for each verb.

The default is the compiled engine if it was built, else NumPy; ``NACP_ENGINE`` (numpy, native, torch)
selects another. The torch engine processes all tensors. If only NumPy can compute a score, the compiled
engine receives the computed scores.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from nacp._types import Array, Floats, Ints
from nacp.engine import numpy
from nacp.engine.spec import Spec

ENGINES = ("numpy", "native", "torch")


def _engine(name: str) -> ModuleType:
    if name == "numpy":
        return numpy
    if name not in ENGINES:
        raise ImportError(f"NACP_ENGINE must be {' or '.join(ENGINES)}, not {name!r}")
    if name == "torch":
        try:
            from nacp.engine import torch
        except ImportError as error:
            raise ImportError("the engine torch needs PyTorch; pip install 'nacp[torch]'") from error
        return torch
    try:
        from nacp.engine import native
    except ImportError as error:
        raise ImportError(
            "the compiled engine was not built when nacp was installed: install a C compiler and nacp "
            "again, or unset NACP_ENGINE"
        ) from error
    return native


def is_built() -> bool:
    """Return whether the compiled engine was built when nacp was installed."""
    return find_spec("nacp.engine._native") is not None


def _default() -> ModuleType:
    return _engine(os.environ.get("NACP_ENGINE") or ("native" if is_built() else "numpy"))


_CURRENT: ContextVar[ModuleType] = ContextVar("engine", default=_default())  # noqa: B039  # a module


@contextmanager
def using(name: str) -> Iterator[None]:
    """Use an engine within a context, for comparisons of engines."""
    token = _CURRENT.set(_engine(name))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def is_tensor(values: Any) -> bool:
    """Return whether `values` is a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def engine_name() -> str:
    """Return the name of the engine in use."""
    name: str = _CURRENT.get().NAME
    return name


def _for(values: Any) -> ModuleType:
    return _engine("torch") if is_tensor(values) else _CURRENT.get()


def check(values: Any, tolerance: float) -> bool:
    """Return whether all rows are probabilities: entries in [0, 1] that sum to 1."""
    good: bool = _for(values).check(values, tolerance)
    return good


def uniforms(values: Any, seed: int) -> Floats:
    """Return one u in [0, 1) per row."""
    found: Floats = _for(values).uniforms(values, seed)
    return found


def scores(values: Any, spec: Spec) -> Floats:
    """Return the native scores of all labels: (rows, k), as an array."""
    found: Floats = _for(values).scores(values, spec)
    return found


def label_scores(values: Any, spec: Spec, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    found: Floats = _for(values).label_scores(values, spec, labels)
    return found


def tally(values: Any, spec: Spec, which: Ints | None = None, table: Ints | None = None) -> tuple[Ints, Ints]:
    """Count pairs by cell: see `nacp.engine.numpy.tally`."""
    found: tuple[Ints, Ints] = _for(values).tally(values, spec, which, table)
    return found


def shares(values: Any, spec: Spec, *arguments: Any) -> Floats:
    """Return each row's share at several thresholds: see `nacp.engine.numpy.shares`."""
    found: Floats = _for(values).shares(values, spec, *arguments)
    return found


def sets(values: Any, spec: Spec, thresholds: Floats, allow_empty: bool = True) -> tuple[Ints, Array]:
    """Return the sizes of the sets, and their labels row by row: see `nacp.engine.numpy.sets`."""
    found: tuple[Ints, Array] = _for(values).sets(values, spec, thresholds, allow_empty)
    return found


def inside(values: Any, spec: Spec, threshold: float, allow_empty: bool) -> Any:
    """Return which labels are in the sets of rows on a device: a boolean tensor on the same device."""
    return _engine("torch").inside(values, spec, threshold, allow_empty)


def bet(*arguments: Any) -> None:
    """Bet on some points, one after the other: see `nacp.stats.betting.play`."""
    _CURRENT.get().bet(*arguments)
