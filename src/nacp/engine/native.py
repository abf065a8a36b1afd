"""The compiled engine: the verbs of the NumPy engine, with the same bits, about as fast as rows can be read.

A ranked formula goes to it as codes. What it cannot evaluate, NumPy does: other scores become entries, and
formulas that are Python functions, or that use operations which may round in more than one way, stay there.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine import _native, numpy
from nacp.engine.codes import codes_of_formula
from nacp.engine.formula import Expression
from nacp.engine.hashing import hash_plan
from nacp.engine.numpy import scores
from nacp.engine.ranks import falling_scores, sort_rows
from nacp.engine.spec import ENTRIES, Spec

__all__ = ["NAME", "bet", "check", "label_scores", "scores", "sets", "shares", "tally", "uniforms"]

NAME = "native"
_plain = np.ascontiguousarray
_WIDTHS = (np.dtype(np.float32), np.dtype(np.float64))
_Score = tuple[int, Array | None, Floats | None, Ints | None, Array | None]
_PLAIN: dict[str, _Score] = {
    "hps": (0, None, None, None, None),
    "entries": (1, None, None, None, None),
}


def _rows(values: Array) -> Array:
    """Return rows one after the other in memory, as C reads them."""
    flags = values.flags
    if values.dtype in _WIDTHS and flags.c_contiguous and flags.aligned:
        return values
    return np.require(values, values.dtype if values.dtype in _WIDTHS else np.float64, ["C", "A"])


@lru_cache(maxsize=64)
def _ranked(formula: Expression, seed: int | None, k: int) -> _Score | None:
    """Describe a ranked score of rows of k labels; None if NumPy has to compute it."""
    codes = codes_of_formula(formula)
    if codes is None:
        return None
    return (2, *codes, *((None, None) if seed is None else hash_plan(k, seed % (1 << 64))))


def _described(values: Array, spec: Spec) -> tuple[Array, _Score | None]:
    """Return rows and a score as C takes them; no score if NumPy has to do the verb."""
    if spec.kernel == "ranked":
        if not isinstance(spec.formula, Expression):
            return values, None
        return _rows(values), _ranked(spec.formula, spec.seed, values.shape[1])
    if spec.kernel not in _PLAIN:  # what NumPy alone computes becomes entries
        values, spec = scores(values, spec), ENTRIES
    return _rows(values), _PLAIN[spec.kernel]


def _sorted(rows: Array, spec: Spec, placed: bool) -> tuple[Array, Ints | None] | None:
    """Return what C needs of sorted rows, which ranked scores are made of."""
    return sort_rows(rows, placed) if spec.kernel == "ranked" else None


def _called(verb: Any, *arguments: Any) -> Any:
    try:
        return verb(*arguments)
    except ArithmeticError:
        raise falling_scores() from None


def check(values: Array, tolerance: float) -> bool:
    """Return whether rows are probabilities: none negative or above 1, and each row sums to 1."""
    return _native.check(_rows(values), tolerance)


def uniforms(values: Array, seed: int) -> Floats:
    """Return one u in [0, 1) per row."""
    out = np.empty(len(values))
    _native.uniforms(_rows(values), *hash_plan(values.shape[1], int(seed) % (1 << 64)), out)
    return out


def label_scores(values: Array, spec: Spec, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    rows, score = _described(values, spec)
    if score is None:
        return numpy.label_scores(values, spec, labels)
    out = np.empty(len(rows))
    _native.label_scores(rows, score, _plain(labels), out)
    return out


def tally(
    values: Array, spec: Spec, which: Ints | None = None, table: Ints | None = None
) -> tuple[Ints, Ints]:
    """Count all pairs by cell: see `nacp.engine.numpy.tally`."""
    rows, score = _described(values, spec)
    if score is None:
        return numpy.tally(values, spec, which, table)
    order = _sorted(rows, spec, table is not None)
    which = None if which is None else _plain(which)
    found = np.frombuffer(_called(_native.tally, rows, order, score, which, table), dtype=np.int64)
    found = found.reshape(2 if table is None else 4, -1)
    return found[0], found[1:]


def shares(
    values: Array,
    spec: Spec,
    cells: Ints,
    own: Floats,
    label_cells: Ints,
    scale: float,
    which: Ints | None = None,
    table: Ints | None = None,
) -> Floats:
    """Return each row's share at several thresholds: see `nacp.engine.numpy.shares`."""
    rows, score = _described(values, spec)
    if score is None:
        return numpy.shares(values, spec, cells, own, label_cells, scale, which, table)
    out = np.empty((len(rows), len(cells)))
    if out.size:
        limit = float(spec.thresholds[cells[-1]])
        given = _plain(own), _plain(label_cells), scale
        order = _sorted(rows, spec, table is not None)
        which = None if which is None else _plain(which)
        _called(_native.shares, rows, order, score, (cells, limit), given, which, table, out)
    return out


def sets(values: Array, spec: Spec, thresholds: Floats, allow_empty: bool = True) -> tuple[Ints, Array]:
    """Return the sizes of the sets, and their labels row after row: see `nacp.engine.numpy.sets`."""
    rows, score = _described(values, spec)
    if score is None or (spec.kernel == "ranked" and thresholds.shape[1] > 1):
        return numpy.sets(values, spec, thresholds, allow_empty)
    sizes = np.empty(len(rows), dtype=np.int64)
    order = _sorted(rows, spec, placed=False)
    labels = _called(_native.sets, rows, order, score, _plain(thresholds), allow_empty, sizes)
    return sizes, np.frombuffer(labels, dtype=np.int32)


def bet(
    state: Floats,
    most: Floats,
    outcome: Ints,
    shares: Floats,
    columns: Ints,
    target: float,
    width: float,
    seen: int,
    stops: Ints,
    changes: Ints,
    delta: float,
    hedges: tuple[Floats, Floats],
) -> None:
    """Bet on some points, one after the other: see `nacp.stats.betting.play`."""
    bets = state, most, outcome
    _native.play(bets, (_plain(shares), columns), (target, width), seen, (stops, changes), delta, hedges)
