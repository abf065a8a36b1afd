"""Every engine returns the bits of the NumPy engine, for every verb."""

import importlib
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from nacp.coverage import grid
from nacp.engine import Spec, numpy, traced
from nacp.engine.hashing import hash_plan
from nacp.errors import InputError
from nacp.stats import betting


class OnTensors:
    """The torch engine, which gets its rows as tensors."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __getattr__(self, verb: str) -> Any:
        if verb == "bet":
            return self.engine.bet
        tensor = importlib.import_module("torch").tensor
        return lambda values, *arguments: getattr(self.engine, verb)(tensor(values), *arguments)


@pytest.fixture(params=["native", "torch"])
def engine(request: pytest.FixtureRequest) -> Any:
    try:
        found = importlib.import_module(f"nacp.engine.{request.param}")
    except ImportError:
        pytest.skip(f"the engine {request.param} is not installed")
    return OnTensors(found) if request.param == "torch" else found


def ranked(formula: Any, seed: int | None = None) -> Spec:
    return Spec("ranked", traced(formula), seed)


def raps(ranks: Any) -> Any:
    return ranks.above + ranks.u * ranks.p + 0.01 * np.maximum(0, ranks.n_upto - 5)


def saps(ranks: Any) -> Any:
    g = ranks.n_above
    return np.where(g == 0, ranks.u * ranks.top, ranks.top + 0.2 * (g - 1 + ranks.u))


def margin(ranks: Any) -> Any:
    return np.where(ranks.p == ranks.top, ranks.second, ranks.top) - ranks.p


def unusual(ranks: Any) -> Any:
    """Use the operations that the library's own scores do not use."""
    spread = np.sqrt(np.abs(ranks.upto)) / np.maximum(ranks.top, 0.25)
    return np.where(ranks.n_above >= 3, spread + 1, np.minimum(spread, -ranks.p + 2))


def not_traced(ranks: Any) -> Any:
    return ranks.upto if np.all(ranks.p >= 0) else ranks.above


SPECS = {
    "hps": Spec("hps"),
    "entries": Spec("entries"),
    "aps": ranked(lambda ranks: ranks.above + ranks.u * ranks.p, 7),
    "aps-det": ranked(lambda ranks: ranks.upto),
    "raps": ranked(raps, 2**63 + 5),
    "raps-det": ranked(lambda ranks: ranks.upto + 0.25 * np.maximum(0, ranks.n_upto - 2)),
    "saps": ranked(saps, 0),
    "margin": ranked(margin),
    "top-k": ranked(lambda ranks: 1.0 * ranks.n_upto),
    "unusual": ranked(unusual),
    "infinite": ranked(lambda ranks: np.where(ranks.n_above == 0, -np.inf, ranks.n_above / ranks.top)),
    "alike": ranked(lambda ranks: ranks.top - ranks.second),
    "traced pointwise": Spec("pointwise", traced(lambda x: np.where(x.p < 0.01, 1, 1 / (0.3 * x.p + 0.1)))),
    "of booleans": ranked(lambda ranks: 1.0 * ((ranks.p > 0.3) + (ranks.upto > 0.1))),
    "rounds differently": ranked(lambda ranks: np.exp(ranks.upto)),
    "not traced": ranked(not_traced),
    "pointwise": Spec("pointwise", traced(lambda ranks: -np.log1p(ranks.p))),
    "function": Spec("function", function=lambda p: 1 - p.astype(np.float64) ** 2),
}


def probabilities(k: int, dtype: Any) -> np.ndarray:
    """Rows of all kinds: confident and not, with ties, zeros, denormals, numbers above 1 and long heads."""
    rng = np.random.default_rng(k)
    parts = []
    for scale in (0.01, 0.5, 2.0, 5.0, 12.0):
        logits = scale * rng.standard_normal((6, k))
        logits[3:] = logits[3:].round()
        parts.append(np.exp(logits - logits.max(axis=1, keepdims=True)))
    eye, even = np.eye(k)[[0, k - 1]], np.full((1, k), 1 / k)
    zeros = np.where(np.arange(k) < max(2, k // 3), 1.0, -0.0)[None]
    powers = 2.0 ** -np.arange(k, dtype=float).clip(max=1000)[None]
    rows = np.concatenate([*parts, eye, even, zeros, powers])
    rows = (rows / rows.sum(axis=1, keepdims=True)).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    special = np.zeros((5, k), dtype=dtype)
    special[:, 0] = 1, 1 + np.finfo(dtype).eps, 1 - np.finfo(dtype).epsneg, 0.5, 0.5
    special[0, 1:], special[3, 1] = -0.0, 0.5
    special[4, 1], special[4, max(2, k // 2) :] = 0.5 - 2.0**-12, tiny
    special[4, 0], special[2, 1] = 0.5 + 2.0**-12, np.finfo(dtype).epsneg
    return np.concatenate([rows, special])[rng.permutation(len(rows) + 5)]


def matrix(spec: Spec, k: int, dtype: Any) -> np.ndarray:
    """Rows for a score: entries may be any numbers but NaN."""
    rows = probabilities(k, dtype)
    if spec.kernel == "entries":
        rng = np.random.default_rng(k + 1)
        rows = (rows * rng.choice([-1e6, -1, 1, 3, 1e9], (len(rows), 1))).astype(dtype)
        rows[0, 0], rows[1, -1], rows[2, 0] = np.inf, -np.inf, np.finfo(dtype).min
        rows[3], rows[4] = np.inf, -np.inf
    return rows


def tables(rng: np.random.Generator, rows: int, k: int) -> list[tuple[Any, Any]]:
    """No weights; small ones of both signs; and some of which sums are nearly as large as they may become."""
    which = rng.integers(0, 4, rows)
    small = rng.integers(-5, 6, (4, k))
    large = rng.choice([-(2**53) // k, 2**53 // k, 0, 1], (4, k))
    return [(None, None), (which, small), (which, large)]


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
        return
    if isinstance(expected, int):
        assert found == expected
        return
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected, strict=True)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> Spec:
    return SPECS[request.param]


# Few classes, and some more than the 128 that are ranked one by one.
every_size = pytest.mark.parametrize(
    ("k", "dtype"),
    [
        (2, np.float32),
        (10, np.float64),
        (130, np.float32),
        pytest.param(130, np.float64, marks=pytest.mark.slow),
        pytest.param(300, np.float32, marks=pytest.mark.slow),
    ],
)


@every_size
def test_label_scores_and_scores(engine: Any, spec: Spec, k: int, dtype: Any) -> None:
    values = matrix(spec, k, dtype)
    same(engine.scores(values, spec), numpy.scores(values, spec))
    for seed in range(3):
        labels = np.random.default_rng(seed).integers(0, k, len(values))
        same(engine.label_scores(values, spec, labels), numpy.label_scores(values, spec, labels))
    top = values.argmax(axis=1)
    same(engine.label_scores(values, spec, top), numpy.label_scores(values, spec, top))


@every_size
def test_tally(engine: Any, spec: Spec, k: int, dtype: Any) -> None:
    values = matrix(spec, k, dtype)
    for which, table in tables(np.random.default_rng(k), len(values), k):
        same(engine.tally(values, spec, which, table), numpy.tally(values, spec, which, table))
    for part in (values[:1], values[:0]):
        same(engine.tally(part, spec), numpy.tally(part, spec))


def cells_of_thresholds(values: np.ndarray, spec: Spec) -> list[np.ndarray]:
    """One or many thresholds, dense and sparse, up to the last cell or not."""
    first, (pairs,) = numpy.tally(values, spec)
    cells = first + np.flatnonzero(pairs)
    middle = int(np.quantile(cells, 0.3))
    few = np.unique(np.random.default_rng(0).choice(cells, 40))
    return [
        np.array([middle]),
        few,
        np.append(few, grid.INFINITE),
        cells[: max(1, len(cells) // 4)],
        np.arange(max(middle - 3, 0), middle + 50),
        grid.TESTED[:3],
    ]


@every_size
def test_shares(engine: Any, spec: Spec, k: int, dtype: Any) -> None:
    values = matrix(spec, k, dtype)
    rng = np.random.default_rng(k)
    parts = [slice(None), slice(5, 6), slice(0, 0)]
    for given, (which, table) in zip((0, 1, 3), tables(rng, len(values), k), strict=True):
        labels = rng.integers(0, k, (len(values), given))
        scores = np.take_along_axis(numpy.scores(values, spec), labels, axis=1)
        own, label_cells = rng.standard_normal(labels.shape), spec.cells_of(scores)
        for number, cells in enumerate(cells_of_thresholds(values, spec)):
            for where in parts if number == 0 else parts[:1]:
                weights = None if which is None else which[where], table
                arguments = values[where], spec, cells, own[where], label_cells[where], -0.37, *weights
                same(engine.shares(*arguments), numpy.shares(*arguments))


@every_size
def test_sets(engine: Any, spec: Spec, k: int, dtype: Any) -> None:
    values = matrix(spec, k, dtype)
    rng = np.random.default_rng(k)
    scores = numpy.scores(values, spec)
    single = [*np.quantile(scores, [0, 0.1, 0.5], method="nearest"), -1.0, 0.9, np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):  # the number below the least is -inf
        single += [float(np.finfo(np.float64).min), float(np.nextafter(scores[3, 1], -np.inf))]
    thresholds = [np.full((1, 1), value) for value in single]
    thresholds += [scores[np.arange(len(scores)), rng.integers(0, k, len(scores))][:, None], scores[7:8]]
    for some in thresholds:
        for allow_empty in (True, False):
            same(engine.sets(values, spec, some, allow_empty), numpy.sets(values, spec, some, allow_empty))
    for where in (slice(5, 6), slice(0, 0)):
        for own in (thresholds[0], thresholds[-2][where], thresholds[-1]):
            same(engine.sets(values[where], spec, own), numpy.sets(values[where], spec, own))


@every_size
def test_uniforms_and_check(engine: Any, k: int, dtype: Any) -> None:
    values = probabilities(k, dtype)
    for seed in (0, 1, 2**64 - 1):
        for rows in (values, values[3:4]):
            same(engine.uniforms(rows, seed), numpy.uniforms(rows, seed))
    assert engine.check(values, 1e-3)
    assert numpy.check(values, 1e-3)
    for place in (0, 1, k // 2, k - 1):
        for wrong in (np.nan, np.inf, -np.inf, -1e-9, 1.5, values[3, place] + 0.01, 1 + 1e-5):
            bad = values.copy()
            bad[3, place] = wrong
            assert not numpy.check(bad, 1e-3), (place, wrong)
            assert not engine.check(bad, 1e-3), (place, wrong)


@pytest.mark.parametrize("sum_of_row", [1.0, 1.0009, 1.002])
def test_sums_of_long_rows_of_float32_are_checked_without_rounding_errors(
    engine: Any, sum_of_row: float
) -> None:
    values = np.full((1, 3_000_000), sum_of_row / 3_000_000, dtype=np.float32)
    assert engine.check(values, 1e-3) == numpy.check(values, 1e-3) == (sum_of_row < 1.001)


def test_memory_may_be_laid_out_in_any_way(engine: Any, spec: Spec) -> None:
    values = matrix(spec, 40, np.float32)
    cells, label_cells = np.array([100_000, 142_000]), np.zeros((len(values), 2), dtype=np.int64).T.copy().T
    own = np.ones((2, len(values))).T
    for other in (np.asfortranarray(values), np.repeat(values, 2, axis=1)[:, ::2], values.astype(">f4")):
        if isinstance(engine, OnTensors) and other.dtype.byteorder == ">":
            continue
        same(engine.tally(other, spec), numpy.tally(values, spec))
        arguments = spec, cells, own, label_cells, 0.5
        same(engine.shares(other, *arguments), numpy.shares(values, *arguments))


@pytest.mark.parametrize("bets", [1, 7, 16, 40, 200])
@pytest.mark.parametrize("n", [1, 50, 3000])
def test_bet(engine: Any, bets: int, n: int) -> None:
    rng = np.random.default_rng([bets, n])
    shares = rng.random((n, 60)) + np.linspace(-0.3, 0.5, 60)
    columns = np.sort(rng.integers(0, 60, bets))

    def played(play: Any) -> list[np.ndarray]:
        game = betting.Bets(bets, n, 0.05, 0.6, 1.3, 0.7, play)
        found = []
        for first in range(0, n, 700):
            game.play(shares[first : first + 700, columns[game.open]])
            found += [game.open, game._state.copy(), np.array(game.failed)]
        return found

    for one, other in zip(played(engine.bet), played(betting.play), strict=True):
        same(one, other)


# Malformed input of the compiled functions, which must never be read out of bounds.

ROWS = np.full((3, 4), 0.25)
OUT = np.empty(3)
CODED = (2, np.array([2, 0], dtype=np.int32), np.empty(0), None, None)
HPS = (0, None, None, None, None)
INTS = np.zeros(3, dtype=np.int64)
TABLE = np.ones((2, 4), dtype=np.int64)
GIVEN = (np.empty((3, 0)), np.empty((3, 0), dtype=np.int64), 1.0)
HASHED = hash_plan(4, 0)
UNALIGNED = np.ones(33, dtype=np.int8)[1:].view(np.float32).reshape(2, 4)
SIZES = np.empty(3, dtype=np.int64)
BEYOND, FALLING = np.array([grid.CELLS]), np.array([3, 2])


def coded(*codes: int, constants: Any = (), hashed: Any = (None, None)) -> tuple[Any, ...]:
    return (2, np.array(codes, dtype=np.int32), np.array(constants, dtype=np.float64), *hashed)


PLAY = {
    "state": np.ones((8, 2)),
    "most": np.ones(2),
    "outcome": np.zeros(2, dtype=np.int64),
    "shares": ROWS[:, :2].copy(),
    "seen": 0,
    "stops": np.array([0, 2, 4]),
    "changes": np.ones(3, dtype=np.int8),
    "hedges": betting.hedge_table()[0],
}


def bets(**changed: Any) -> tuple[Any, ...]:
    state, most, outcome, shares, seen, stops, changes, hedges = (PLAY | changed).values()
    tables = (stops, changes), 0.1, (hedges, betting.hedge_table()[1])
    return (state, most, outcome), shares, (0.5, 1.0), seen, *tables


MALFORMED = {
    "rows of integers": ("check", (np.ones((2, 2), dtype=np.int64), 0.1)),
    "rows of one dimension": ("check", (np.ones(4), 0.1)),
    "rows that are not contiguous": ("check", (np.ones((4, 4))[:, ::2], 0.1)),
    "rows that are not aligned": ("check", (UNALIGNED, 0.1)),
    "rows without entries": ("check", (np.ones((4, 0)), 0.1)),
    "too short an output": ("uniforms", (ROWS, *HASHED, np.empty(2))),
    "an output that is read-only": ("uniforms", (ROWS, *HASHED, np.broadcast_to(0.0, 3))),
    "columns that do not exist": ("uniforms", (ROWS, np.array([0, 4]), HASHED[1][:3], OUT)),
    "a kernel that does not exist": ("tally", (ROWS, None, (3, None, None, None, None), None, None)),
    "a score that is no tuple": ("tally", (ROWS, None, None, None, None)),
    "an empty formula": ("tally", (ROWS, None, coded(), None, None)),
    "too long a formula": ("tally", (ROWS, None, coded(*[0, 0] * 40, *[9, 0] * 39), None, None)),
    "an operation without operands": ("tally", (ROWS, None, coded(0, 0, 9, 0), None, None)),
    "an unknown code": ("tally", (ROWS, None, coded(99, 0), None, None)),
    "a constant that is not there": ("tally", (ROWS, None, coded(8, 1, constants=[1.0]), None, None)),
    "u without a seed": ("tally", (ROWS, None, coded(7, 0), None, None)),
    "labels that do not exist": ("label_scores", (ROWS, HPS, np.array([0, 1, 4]), OUT)),
    "too few labels": ("label_scores", (ROWS, HPS, INTS[:2], OUT)),
    "rows of the table that do not exist": ("tally", (ROWS, None, HPS, INTS + 2, TABLE)),
    "a table of floats": ("tally", (ROWS, None, HPS, INTS, TABLE.astype(float))),
    "no thresholds": ("shares", (ROWS, None, HPS, (INTS[:0], 0.0, 0.0), GIVEN, None, None, np.empty((3, 0)))),
    "cells that descend": (
        "shares",
        (ROWS, None, HPS, (FALLING, 0.0, 0.0), GIVEN, None, None, np.empty((3, 2))),
    ),
    "a cell that is not there": (
        "shares",
        (ROWS, None, HPS, (BEYOND, 0.0, 0.0), GIVEN, None, None, np.empty((3, 1))),
    ),
    "thresholds of some rows": ("sets", (ROWS, None, HPS, np.zeros((2, 1)), True, SIZES)),
    "thresholds of some labels": ("sets", (ROWS, None, HPS, np.zeros((1, 3)), True, SIZES)),
    "thresholds by label of a ranked score": ("sets", (ROWS, None, CODED, np.zeros((1, 4)), True, SIZES)),
    "sorted rows of another shape": ("sets", (ROWS, (ROWS[:2], None), CODED, np.zeros((1, 1)), True, SIZES)),
    "sorted rows without columns": ("tally", (ROWS, (ROWS, None), CODED, INTS, TABLE)),
    "columns of sorted rows that do not exist": (
        "tally",
        (ROWS, (ROWS, INTS[:, None] + [0, 1, 2, 4]), CODED, INTS, TABLE),
    ),
    "a state of other bets": ("play", bets(state=np.ones((8, 3)))),
    "a state with too few numbers": ("play", bets(state=np.ones((7, 2)))),
    "shares of other bets": ("play", bets(shares=np.ones((3, 4)))),
    "stops that descend": ("play", bets(stops=np.array([0, 2, 2]))),
    "too few changes": ("play", bets(changes=np.ones(2, dtype=np.int8))),
    "a short table of hedges": ("play", bets(hedges=np.ones(3))),
    "points seen before the first": ("play", bets(seen=-1)),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_input_is_refused(case: str) -> None:
    native = pytest.importorskip("nacp.engine._native")
    verb, arguments = MALFORMED[case]
    with pytest.raises(ValueError):  # noqa: PT011  # A wrong call is a TypeError.
        getattr(native, verb)(*arguments)


def test_numbers_that_are_no_probabilities_do_no_harm() -> None:
    native = pytest.importorskip("nacp.engine.native")
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        wild = rng.choice([np.nan, -np.nan, np.inf, -np.inf, -3.0, -0.0, 1e30, 0.7, 0.1], (50, 200)).astype(
            dtype
        )
        own, label_cells = np.ones((50, 1)), np.full((50, 1), -5)
        which, table = np.zeros(50, dtype=np.int64), np.ones((1, 200), dtype=np.int64)
        for name in ("hps", "entries", "aps", "aps-det", "raps", "saps", "margin", "top-k", "unusual"):
            spec = SPECS[name]
            for verb, arguments in (
                (native.tally, ()),
                (native.tally, (which, table)),
                (native.shares, (np.array([5, 120_000, grid.INFINITE]), own, label_cells, 1.0)),
                (native.shares, (np.array([120_000]), own, label_cells, 1.0)),
                (native.sets, (np.array([[0.5]]),)),
                (native.sets, (np.array([[-0.5]]), False)),
            ):
                with suppress(InputError):  # Ranked scores of such rows may fall.
                    verb(wild, spec, *arguments)


OF_NAN = """
import numpy as np
from nacp.engine import Spec, native, traced
spec = Spec("ranked", traced(lambda ranks: ranks.above + ranks.u * ranks.p), 7)
values = np.full((1, 40), np.nan)
given = np.empty((1, 0)), np.empty((1, 0), dtype=np.int64), 1.0
weights = np.zeros(1, dtype=np.int64), np.ones((1, 40), dtype=np.int64)
native.shares(values, spec, np.array([5, 180_000]), *given, *weights)
"""


def test_the_order_of_nan_is_never_read_from_memory_that_was_not_written() -> None:
    pytest.importorskip("nacp.engine._native")
    filled = os.environ | {"MALLOC_PERTURB_": "165"}  # glibc then fills memory that it allocates
    subprocess.run([sys.executable, "-c", OF_NAN], env=filled, check=True)


def test_every_engine_has_the_grid_of_numpy(engine: Any) -> None:
    inner = grid.GRID[1:-1]
    sides = np.nextafter(inner, -np.inf), np.nextafter(inner, np.inf)
    scores = np.concatenate([inner, *sides, [1e300, -1e300, -0.0]])
    for values, spec in ((scores[None], SPECS["entries"]), (1 - scores[None].clip(0, 1), SPECS["hps"])):
        same(engine.tally(values, spec), numpy.tally(values, spec))
