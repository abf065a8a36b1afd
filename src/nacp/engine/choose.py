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
from typing import Any, Protocol, cast

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


class Engine(Protocol):
    """The verbs: pure functions of one block of rows, which `nacp.engine.numpy` defines and documents."""

    NAME: str

    def check(self, values: Any, tolerance: float) -> bool:
        """Return whether all rows are probabilities: entries in [0, 1] that sum to 1."""

    def uniforms(self, values: Any, seed: int) -> Floats:
        """Return one u in [0, 1) per row."""

    def scores(self, values: Any, spec: Spec) -> Floats:
        """Return the native scores of all labels: (rows, k), as an array."""

    def label_scores(self, values: Any, spec: Spec, labels: Ints) -> Floats:
        """Return the native score of one given label per row."""

    def tally(
        self, values: Any, spec: Spec, which: Ints | None = None, table: Ints | None = None
    ) -> tuple[int, Ints]:
        """Count pairs by cell: return the first cell that contains a pair, and histograms from it on."""

    def shares(
        self,
        values: Any,
        spec: Spec,
        cells: Ints,
        own: Floats,
        label_cells: Ints,
        scale: float,
        which: Ints | None = None,
        table: Ints | None = None,
    ) -> Floats:
        """Return each row's share at several thresholds."""

    def sets(
        self, values: Any, spec: Spec, thresholds: Floats, allow_empty: bool = True
    ) -> tuple[Ints, Array]:
        """Return the sizes of the sets, and their labels row by row."""

    def bet(
        self,
        state: Floats,
        most: Floats,
        outcome: Ints,
        shares: Floats,
        target: float,
        width: float,
        seen: int,
        stops: Ints,
        changes: Ints,
        delta: float,
        hedges: tuple[Floats, Floats],
    ) -> None:
        """Bet on some points, one after the other."""


def current() -> Engine:
    """Return the engine in use for arrays."""
    return cast(Engine, _CURRENT.get())


def of(values: Any) -> Engine:
    """Return the engine for rows: the torch engine for tensors, else the engine in use."""
    return cast(Engine, _engine("torch")) if is_tensor(values) else current()


def inside(values: Any, spec: Spec, threshold: float, allow_empty: bool) -> Any:
    """Return which labels are in the sets of rows on a device: a boolean tensor on the same device."""
    return _engine("torch").inside(values, spec, threshold, allow_empty)
