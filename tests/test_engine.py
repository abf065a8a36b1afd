"""The engine: its verbs against their definitions on small blocks, the cells, and formulas as data."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import oracle
import pytest
from scipy.special import expit

import nacp
from nacp import engine
from nacp.engine import ByEntry, ByLabel, PerLabel, PerRow, Scratch, Spec, traced
from nacp.engine.cells import CELLS, EDGES, codes_of
from nacp.engine.contract import Whole
from nacp.engine.formula import Expression, Symbols
from nacp.engine.ranks import descending_rows, sorted_places
from nacp.noise.matrices import DenseMatrix, GroupedMatrix
from nacp.scores.base import RankedScore
from nacp.tuning import tuned

# Scores: those of the library, and some that a user might write


@dataclass(frozen=True)
class Steep(RankedScore):
    """A formula that is followed: it becomes an expression."""

    randomized: bool = True
    seed: int = 4
    name: ClassVar[str] = "steep"

    def formula(self, ranks):
        return np.exp(ranks.above) + np.where(ranks.p < 0.1, 2 * ranks.u, ranks.u * ranks.p) - ranks.p / 2


class Branching(RankedScore):
    """A formula that looks at the numbers, so that it stays a function."""

    name = "branching"

    def formula(self, ranks):
        if np.all(ranks.p < 0):
            raise AssertionError("no row is like that")
        return ranks.upto + ranks.n_above


class Straight(RankedScore):
    """The same without looking."""

    name = "straight"

    def formula(self, ranks):
        return ranks.upto + ranks.n_above


def squared(p):
    return -(p.astype(np.float64) ** 2)


SCORES = {
    "hps": nacp.HPS(),
    "aps": nacp.APS(),
    "aps-det": nacp.APS(randomized=False),
    "raps": nacp.RAPS(penalty=0.1, free=2, seed=3),
    "raps-det": nacp.RAPS(randomized=False, free=1),
    "saps": nacp.SAPS(),
    "saps-det": nacp.SAPS(randomized=False),
    "margin": nacp.Margin(),
    "topk": nacp.TopK(),
    "precomputed": nacp.Precomputed(),
    "function": nacp.Custom(squared),
    "followed": Steep(),
    "not followed": Branching(),
}


def rows(k: int, dtype: Any, seed: int = 0, n: int = 24) -> np.ndarray:
    """Ordinary rows, then some with ties, with zeros (of both signs), certain and even ones."""
    rng = np.random.default_rng([k, seed])
    logits = 3 * rng.standard_normal((n, k))
    logits[n // 4 : n // 2] = logits[n // 4 : n // 2].round()
    logits[n // 2 : -4, k // 2 :] = -np.inf
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    probs[-4:] = np.eye(k)[0], np.eye(k)[-1], np.full(k, 1 / k), np.eye(k)[0]
    probs[-1, 1:] = -0.0
    return probs[rng.permutation(n)].astype(dtype)


def quantities(values: np.ndarray, u: Any) -> SimpleNamespace:
    """What formulas are made of, label by label: no sorting."""
    p = (values.astype(np.float64) + 1.0) - 1.0
    more = values[:, None, :] > values[:, :, None]
    at_least = values[:, None, :] >= values[:, :, None]

    def mass(which):
        return np.array([[math.fsum(row[some]) for some in each] for row, each in zip(p, which, strict=True)])

    top, second = np.sort(p, axis=1)[:, ::-1][:, :2].T
    return SimpleNamespace(
        p=p,
        above=mass(more),
        upto=mass(at_least),
        n_above=more.sum(axis=2),
        n_upto=at_least.sum(axis=2),
        top=top[:, None],
        second=second[:, None],
        u=None if u is None else np.array(u)[:, None],
    )


def scores_by_definition(score: nacp.Score, values: np.ndarray) -> np.ndarray:
    """The native scores of all labels."""
    if isinstance(score, nacp.HPS):
        return -values.astype(np.float64)
    if isinstance(score, nacp.Precomputed):
        return values.astype(np.float64)
    if isinstance(score, nacp.Custom):
        return score.function(values)
    u = [oracle.uniforms(row, score.seed) for row in values] if getattr(score, "randomized", False) else None
    found = score.formula(quantities(values, u))
    return np.broadcast_to(np.asarray(found, dtype=np.float64), values.shape)


@dataclass(frozen=True)
class Case:
    """A block, a score, and labels; all read-only, so that no verb can change them unnoticed."""

    score: nacp.Score
    values: np.ndarray
    labels: np.ndarray

    def open(self, scratch: Scratch | None = None) -> engine.Block:
        return engine.open_block(self.values, self.score.spec, scratch)

    def part(self, where: slice) -> "Case":
        return Case(self.score, self.values[where], self.labels[where])

    @cached_property
    def scores(self) -> np.ndarray:
        return read_only(scores_by_definition(self.score, self.values))

    @property
    def thresholds(self) -> np.ndarray:
        """Some numbers in ascending order: scores, their neighbours, and what lies between and beyond."""
        some = np.unique(self.scores)[:: max(1, self.scores.size // 20)]
        between = (some[1:] + some[:-1]) / 2
        ends = [self.scores.min() - 1, self.scores.max() + 1, np.inf]
        return read_only(np.unique([*some, *np.nextafter(some[::3], -np.inf), *between, *ends]))

    def weights(self) -> dict[str, tuple[Any, np.ndarray | None]]:
        """Weights of pairs, as the engine gets them and written out."""
        (n, k), rng = self.values.shape, np.random.default_rng(9)
        entries = read_only(rng.integers(-5, 6, size=(n, k)))
        matrix = read_only(rng.integers(-8, 9, size=(k, k)) / 4)
        groups, shared = read_only(np.arange(k) % 3), read_only(np.array([-0.5, 0.25, -0.75]))
        grouped = GroupedMatrix(groups, read_only(np.array([2.0, 1.0, 1.5])), shared)
        off = np.where(np.eye(k, dtype=bool), 0, matrix)
        same = np.where(groups[:, None] == groups, shared[groups][:, None], 0)
        return {
            "equal": (None, None),
            "matrix": (ByLabel(self.labels, DenseMatrix(matrix), 0.25), 4 * off[self.labels]),
            "groups": (ByLabel(self.labels, grouped, 0.125), 8 * same[self.labels]),
            "written out": (ByLabel(self.labels, Whole((4 * off).astype(np.int64))), 4 * off[self.labels]),
            "entries": (ByEntry(entries), entries),
        }


def read_only(array: np.ndarray) -> np.ndarray:
    array = np.array(array)
    array.flags.writeable = False
    return array


def make(score: str, k: int, dtype: Any, seed: int = 0) -> Case:
    values = rows(k, dtype, seed)
    if score == "precomputed":
        values = np.where(values > 0.5, 40 * values, -2 * values)  # scores of both signs
    labels = np.random.default_rng(1).integers(k, size=len(values))
    return Case(SCORES[score], read_only(values), read_only(labels))


@pytest.fixture(autouse=True, params=["numpy", "native"])
def _engine(request):
    """All that follows holds for each engine; of the torch engine see test_torch_engine."""
    if request.param == "native":
        pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    with engine.using(request.param):
        yield


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(params=SCORES)
def case(request, dtype):
    """Each score with blocks of few classes and of many."""
    return [make(request.param, k, dtype) for k in (2, 3, 7, 40)]


@pytest.fixture(params=[0, 32], ids=["looked up", "counted"])
def counted(request):
    """Both ways to count the pairs up to a few thresholds."""
    with tuned(counted_thresholds=request.param):
        yield


# The verbs


def test_scores_are_the_formula_of_where_a_label_stands(case):
    for each in case:
        np.testing.assert_array_equal(each.open().placed, each.scores)
        np.testing.assert_array_equal(np.sort(each.open().along, axis=1), np.sort(each.scores, axis=1))


def test_a_label_score_is_that_of_the_label(case):
    for each in case:
        for label in range(each.values.shape[1]):
            labels = np.full(len(each.values), label)
            found = engine.label_scores(each.open(), labels)
            assert found.dtype == np.float64
            np.testing.assert_array_equal(found, each.scores[:, label])


def expect_tally(found, scores, edges, weights):
    """Pairs, gains and losses of the cells (edges[i], edges[i + 1]]; without weights the pairs alone."""
    assert found.dtype == np.int64
    cells = np.searchsorted(edges, scores, side="left") - 1
    inside = (cells >= 0) & (cells < len(edges) - 1)

    def sums(values):
        return np.bincount(cells[inside], values[inside], minlength=len(edges) - 1).tolist()

    assert found[0].tolist() == sums(np.ones(scores.shape))
    if weights is None:
        assert not found[1:].any()
    else:
        assert found[1].tolist() == sums(np.maximum(weights, 0))
        assert found[2].tolist() == sums(np.maximum(-weights, 0))


def test_a_tally_adds_up_the_pairs_of_every_cell(case):
    for each in case:
        for weights, written in each.weights().values():
            found = engine.tally(each.open(), None, weights)
            expect_tally(found, each.scores, np.append(-np.inf, EDGES), written)


def test_a_tally_up_to_a_limit_counts_what_is_beyond_no_later_than_it_comes(case):
    for each in case:
        for weights, _ in each.weights().values():
            every = engine.tally(each.open(), None, weights)
            for place in np.searchsorted(EDGES, each.thresholds[1:-2:5]).tolist():
                found = engine.tally(each.open(), None, weights, float(EDGES[place]))
                np.testing.assert_array_equal(found[:, : place + 1], every[:, : place + 1])
                np.testing.assert_array_equal(found.sum(axis=1), every.sum(axis=1))
                early = np.cumsum(found, axis=1) - np.cumsum(every, axis=1)
                assert (early[::2] >= 0).all()  # pairs and losses


def test_a_tally_adds_up_the_pairs_between_given_edges(case, counted):
    for each in case:
        thresholds = each.thresholds
        for edges in (np.append(-np.inf, thresholds), thresholds[1:-2], thresholds[[0, -1]]):
            for weights, written in each.weights().values():
                expect_tally(engine.tally(each.open(), edges, weights), each.scores, edges, written)


def spans_of(thresholds: np.ndarray) -> list[list[tuple[float, float]]]:
    """Ascending, disjoint intervals: one, many, those that touch, those without a score, and whole cells."""
    low, high = thresholds[0], thresholds[-2]
    middle = thresholds[len(thresholds) // 2]
    edges = EDGES[(low < EDGES) & (high > EDGES)][::97]
    return [
        [(-np.inf, np.inf)],
        [(low, middle)],
        [(middle, np.inf)],
        [(low - 2, low - 1)],
        list(zip(thresholds[:-1:2], thresholds[1::2], strict=False)),
        list(pairwise(thresholds)),
        list(zip(edges[:-1:3], edges[1::3], strict=False)),
        list(pairwise(edges))[:1],
    ]


def test_a_window_holds_the_pairs_that_score_in_some_intervals(case):
    for each in case:
        limit = float(EDGES[np.searchsorted(EDGES, each.thresholds[len(each.thresholds) // 2])])
        for spans in spans_of(each.thresholds):
            inside = np.zeros(each.scores.shape, dtype=bool)
            for low, high in spans:
                inside |= (each.scores > low) & (each.scores <= high)
            for weights, written in each.weights().values():
                for seen_before in (None, np.inf, limit):
                    block = each.open()
                    if seen_before is not None:
                        engine.tally(block, None, weights, seen_before)
                    found = engine.window(block, spans, weights)
                    assert found.scores.dtype == np.float64
                    if weights is None:
                        assert sorted(found.scores) == sorted(each.scores[inside])
                        assert not len(found.weights)
                    else:
                        pairs = zip(found.scores, found.weights, strict=True)
                        assert sorted(pairs) == sorted(zip(each.scores[inside], written[inside], strict=True))


def expect_profile(found, inside, weights):
    """Row by row, and for each threshold, the weight of what is inside."""
    expected = np.stack(
        [np.where(each, 1 if weights is None else weights, 0).sum(axis=1) for each in inside], 1
    )
    np.testing.assert_array_equal(found, expected)


def test_a_profile_is_the_weight_of_each_set_at_each_threshold(case):
    for each in case:
        for thresholds in (each.thresholds, each.thresholds[3:4]):
            inside = [each.scores <= q for q in thresholds]
            for weights, written in each.weights().values():
                expect_profile(engine.profile(each.open(), thresholds, weights), inside, written)


def test_pairs_are_counted_below_marks_of_their_labels_and_up_to_them(case):
    rng = np.random.default_rng(2)
    for each in case:
        marks = read_only(rng.choice(each.thresholds, size=(5, each.values.shape[1])))
        ends = [[each.scores < q for q in marks], [each.scores <= q for q in marks]]
        counts = [[np.count_nonzero(some, axis=0) for some in end] for end in ends]
        np.testing.assert_array_equal(engine.counts(each.open(), marks), counts)
        for weights, written in each.weights().values():
            if weights is not None:
                parts = np.maximum(written, 0), np.maximum(-written, 0)
                sums = [
                    [[np.where(some, part, 0).sum(axis=0) for some in end] for end in ends] for part in parts
                ]
                np.testing.assert_array_equal(engine.counts(each.open(), marks, weights), sums)


@pytest.mark.parametrize("labels", [3, 40])
def test_pairs_in_gaps_of_labels_are_found_row_after_row(case, labels):
    rng = np.random.default_rng(3)
    for each in case:
        columns = np.sort(rng.integers(each.values.shape[1], size=labels))
        lows, highs = np.sort(rng.choice([-np.inf, *each.thresholds, np.inf], size=(2, labels)), axis=0)
        inside = (each.scores[:, columns] > lows) & (each.scores[:, columns] < highs)
        row, gap = np.nonzero(inside)
        for weights, written in each.weights().values():
            which, pairs = engine.gaps(each.open(), columns, lows, highs, weights)
            np.testing.assert_array_equal(which, gap)
            np.testing.assert_array_equal(pairs.scores, each.scores[row, columns[gap]])
            expected = [] if weights is None else written[row, columns[gap]]
            np.testing.assert_array_equal(pairs.weights, expected)


def test_a_profile_has_a_threshold_for_each_label_or_for_each_row(case):
    rng = np.random.default_rng(2)
    for each in case:
        (n, k), thresholds = each.values.shape, each.thresholds
        by_label, by_row = (read_only(rng.choice(thresholds, size=(5, size))) for size in (k, n))
        for weights, written in each.weights().values():
            inside = [each.scores <= q for q in by_label]
            expect_profile(engine.profile(each.open(), PerLabel(by_label), weights), inside, written)
            expect_profile(engine.profile(each.open(), PerLabel(by_label[0]), weights), inside[:1], written)
            inside = [each.scores <= q[:, None] for q in by_row]
            expect_profile(engine.profile(each.open(), PerRow(by_row), weights), inside, written)
            expect_profile(engine.profile(each.open(), PerRow(by_row[0]), weights), inside[:1], written)


def expect_sets(case: Case, threshold: Any, inside: np.ndarray) -> None:
    """The labels of each row, ascending; if none may be empty, the best labels where there is none."""
    best = case.scores == case.scores.min(axis=1, keepdims=True)
    if case.score.spec.ranked:
        best = case.values == case.values.max(axis=1, keepdims=True)
    filled = np.where(inside.any(axis=1, keepdims=True), inside, best)
    for allow_empty, expected in ((True, inside), (False, filled)):
        sizes, labels = engine.sets(case.open(), threshold, allow_empty=allow_empty)
        assert sizes.tolist() == expected.sum(axis=1).tolist()
        assert labels.tolist() == np.nonzero(expected)[1].tolist()


def test_sets_hold_the_labels_that_score_at_most_the_threshold(case):
    for each in case:
        for q in [-np.inf, *each.thresholds]:
            expect_sets(each, float(q), each.scores <= q)


def test_sets_have_a_threshold_for_each_label_or_for_each_row(case):
    rng = np.random.default_rng(3)
    for each in case:
        n, k = each.values.shape
        for thresholds in (each.thresholds, each.thresholds[:3]):
            by_label, by_row = (read_only(rng.choice(thresholds, size=size)) for size in (k, n))
            expect_sets(each, PerLabel(by_label), each.scores <= by_label)
            expect_sets(each, PerRow(by_row), each.scores <= by_row[:, None])


@pytest.mark.parametrize("k", [2, 5, 16, 17, 40])
@pytest.mark.parametrize("seed", [0, 7, -3, 2**64 + 5])
def test_uniforms_are_the_hash_of_each_row(k, seed, dtype):
    values = rows(k, dtype)
    assert engine.uniforms(values, seed).tolist() == [oracle.uniforms(row, seed) for row in values]


@pytest.mark.parametrize("k", [2, 7, 40])
def test_check_takes_probabilities_and_nothing_else(k, dtype):
    good = rows(k, dtype)

    def with_row(*values):
        return np.concatenate([good, np.array([[*values, *[0] * (k - 2)]], dtype=dtype)])

    for probable in (good, good[:1], with_row(0.4996, 0.5), with_row(0.5004, 0.5), with_row(-0.0, 1)):
        assert engine.check(probable, 1e-3)
    nan, inf = np.nan, np.inf
    for wrong in [
        (0.5, 0.49),
        (0.5, 0.51),
        (1.25, -0.25),
        (1.0005, 0),
        (nan, 1),
        (inf, 0),
        (inf, -inf),
        (0, 0),
    ]:
        assert not engine.check(with_row(*wrong), 1e-3), wrong


# What holds for all verbs


def asked(case: Case) -> dict[str, Callable[[engine.Block], Any]]:
    """Each verb with what it is asked; results as lists, which are copies."""
    q, weights, n = case.thresholds, case.weights(), len(case.values)
    some = [(q[0], q[2]), (q[3], q[-1])]

    def window(block, spans, how=None):
        found = engine.window(block, spans, weights[how][0] if how else None)
        return sorted(
            zip(found.scores.tolist(), found.weights.tolist() or [0] * len(found.scores), strict=True)
        )

    return {
        "label scores": lambda block: engine.label_scores(block, case.labels).tolist(),
        "tally": lambda block: engine.tally(block).tolist(),
        "weighed tally": lambda block: engine.tally(block, None, weights["matrix"][0]).tolist(),
        "tally between edges": lambda block: engine.tally(block, q).tolist(),
        "weighed tally between edges": lambda block: engine.tally(block, q, weights["groups"][0]).tolist(),
        "window": lambda block: window(block, some[:1]),
        "windows": lambda block: window(block, some),
        "weighed window": lambda block: window(block, some, "entries"),
        "profile": lambda block: engine.profile(block, q).tolist(),
        "weighed profile": lambda block: engine.profile(block, q, weights["matrix"][0]).tolist(),
        "profile per row": lambda block: engine.profile(block, PerRow(np.full(n, q[3]))).tolist(),
        "sets": lambda block: [part.tolist() for part in engine.sets(block, float(q[3]), allow_empty=False)],
        "sets per label": lambda block: [
            part.tolist() for part in engine.sets(block, PerLabel(np.full(case.values.shape[1], q[3])))
        ],
    }


def test_verbs_on_one_block_give_the_same_in_any_order(case):
    rng = np.random.default_rng(5)
    for each in case:
        verbs = asked(each)
        fresh = {name: verb(each.open()) for name, verb in verbs.items()}
        for _ in range(6):
            block = each.open()
            for name in rng.choice(list(verbs), size=2 * len(verbs)):
                assert verbs[name](block) == fresh[name], name


def test_a_block_knows_nothing_of_the_one_before_in_the_same_memory(case):
    for each in case:
        verbs = asked(each)
        fresh = {name: verb(each.open()) for name, verb in verbs.items()}
        others = [
            make(score, k, other, seed=1)
            for score in ("hps", "raps", "margin", "precomputed")
            for k in (3, 40)
            for other in (np.float32, np.float64)
        ]
        scratch = Scratch()
        for before, (name, verb) in zip([*others, *others], verbs.items(), strict=False):
            block_before = before.open(scratch)
            for ask in asked(before).values():
                ask(block_before)
            assert verb(each.open(scratch)) == fresh[name], name


def test_a_block_of_one_row_is_that_row_of_a_block_of_many(case):
    for each in case:
        whole, q = each.open(), each.thresholds
        sizes, labels = engine.sets(whole, float(q[3]))
        labels_by_row = np.split(labels, np.cumsum(sizes)[:-1])
        profile, own = engine.profile(whole, q), engine.label_scores(whole, each.labels)
        total, many = engine.tally(whole), 0
        for i in range(len(each.values)):
            one = each.part(slice(i, i + 1))
            np.testing.assert_array_equal(one.open().placed[0], whole.placed[i])
            assert engine.label_scores(one.open(), one.labels) == own[i]
            assert engine.sets(one.open(), float(q[3]))[1].tolist() == labels_by_row[i].tolist()
            np.testing.assert_array_equal(engine.profile(one.open(), q)[0], profile[i])
            many = many + engine.tally(one.open())
        np.testing.assert_array_equal(many, total)


# Cells


def test_edges_ascend_to_infinity():
    assert (np.diff(EDGES) > 0).all()
    assert EDGES[-1] == np.inf
    assert len(EDGES) == CELLS
    assert not EDGES.flags.writeable


def numbers() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    edges = EDGES[:-1]
    tiny = np.finfo(np.float64).smallest_subnormal * np.array([1, 2, 1e3, 1e12])
    wide = rng.standard_normal(20_000) * 2.0 ** rng.integers(-150, 150, size=20_000)
    special = [0.0, -0.0, 0.5, 1.0, 2.0, np.inf, *tiny, 1e-300, 1e300, 1e-45, 3e38, *np.nextafter(1, [0, 2])]
    return {
        "edges": edges,
        "just below": np.nextafter(edges, -np.inf),
        "just above": np.nextafter(edges, np.inf),
        "of all sizes": wide,
        "negative": -np.abs(wide),
        "probabilities": rng.dirichlet(np.full(50, 0.1), size=400).ravel(),
        "near one": 1 - np.abs(wide[np.abs(wide) < 1]),
        "above one": 1 + np.abs(wide[np.abs(wide) < 1e6]),
        "special": np.array([*special, *(-value for value in special if value < np.inf)]),
        "zeros": np.array([0.0, -0.0]),
        "none": np.array([]),
    }


def rows_to_sort(kind, k):
    """Rows whose entries differ a lot, or only in bits that a short word has no room for."""
    rng = np.random.default_rng(k)
    far, near = rng.dirichlet(np.full(k, 0.1), size=40), 1 / k * (1 + rng.uniform(0, 1e-6, (40, k)))
    rows = {"far": far, "near": near, "few near": np.where(np.arange(40)[:, None] % 9, far, near)}[kind]
    rows = rows.astype(np.float32)
    rows[::3][rows[::3] < 1e-3] = -0.0
    return rows


@pytest.mark.parametrize("k", [2, 3, 10, 1000, 4096, 4097])
@pytest.mark.parametrize("kind", ["far", "near", "few near"])
def test_rows_are_sorted_with_their_places(kind, k):
    rows = rows_to_sort(kind, k)
    expected = -np.sort(-rows.astype(np.float64), axis=1)
    for values in (rows, rows.astype(np.float64)):
        found, places = sorted_places(values, Scratch())
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(values.reshape(-1)[places], expected)
        np.testing.assert_array_equal(np.sort(places, axis=1).ravel(), np.arange(rows.size))
        np.testing.assert_array_equal(descending_rows(values, Scratch()), expected)


def cells_of(scores, scratch):
    """The cell of each score, flat."""
    codes, table = codes_of(scores, scratch)
    return table[codes]


@pytest.mark.parametrize("kind", numbers())
def test_the_cell_of_a_score_is_where_it_lies_between_the_edges(kind, dtype):
    with np.errstate(over="ignore"):
        scores = numbers()[kind].astype(dtype)
    scores = scores[scores > -np.inf]
    found = cells_of(scores, Scratch())
    np.testing.assert_array_equal(found, np.searchsorted(EDGES, scores.astype(np.float64), side="left"))


def test_cells_do_not_depend_on_what_else_there_is(dtype):
    with np.errstate(over="ignore"):
        scores = np.concatenate(list(numbers().values())).astype(dtype)
    scores = np.random.default_rng(7).permutation(scores[scores > -np.inf])
    scratch = Scratch()
    parts = [cells_of(part, scratch).copy() for part in np.array_split(scores, 50)]
    np.testing.assert_array_equal(np.concatenate(parts), cells_of(scores, Scratch()))


# Formulas as data

RANKED = {name: score for name, score in SCORES.items() if score.spec.ranked}


@pytest.mark.parametrize("name", RANKED)
def test_a_formula_as_data_gives_the_bits_of_the_formula(name, dtype):
    score = RANKED[name]
    assert isinstance(score.spec.formula, Expression) == (name != "not followed")
    for k in (2, 7, 40):
        values = rows(k, dtype)
        called = Spec(score.formula, ranked=True, seed=score.spec.seed)
        for spec in (score.spec, called):
            np.testing.assert_array_equal(
                engine.open_block(values, spec).placed, scores_by_definition(score, values)
            )


def test_a_formula_reads_as_it_was_written():
    assert repr(nacp.APS().spec.formula) == "add(above, multiply(u, p))"
    assert repr(nacp.HPS().spec.formula) == "negative(p)"
    assert repr(nacp.RAPS(randomized=False, penalty=0.5, free=2).spec.formula) == (
        "add(upto, multiply(0.5, maximum(0, subtract(n_upto, 2))))"
    )


NOT_FOLLOWED = {
    "if": lambda r: r.upto if r.p.max() > 2 else r.above,
    "comparison": lambda r: max(r.p.ravel()) + r.above,
    "method": lambda r: r.above.clip(0, 1),
    "function": lambda r: np.clip(r.above, 0, 1),
    "sum": lambda r: r.above + np.sum(r.p, axis=1, keepdims=True),
    "array": lambda r: r.above + np.zeros((1, 1)),
    "number": lambda r: 1.0,
    "ufunc of others": lambda r: expit(r.above),
    "ufunc of one's own": lambda r: np.frompyfunc(float, 1, 1)(r.above),
    "option": lambda r: np.add(r.above, r.p, dtype=np.float64),
}


@pytest.mark.parametrize("name", NOT_FOLLOWED)
def test_what_cannot_be_followed_stays_a_function_and_works(name):
    formula = NOT_FOLLOWED[name]
    assert traced(formula) is formula
    values = rows(7, np.float64)
    found = engine.open_block(values, Spec(traced(formula), ranked=True)).placed
    expected = np.broadcast_to(formula(quantities(values, None)), values.shape)
    np.testing.assert_array_equal(found, expected.astype(np.float64))


def test_there_are_no_other_quantities():
    with pytest.raises(AttributeError, match="there is no quantity 'q'; there are p, above"):
        _ = Symbols().q


# A score of one's own: one formula


class Plain(RankedScore):
    """As short as can be."""

    name = "plain"

    def formula(self, ranks):
        return ranks.above + 0.01 * ranks.n_above


@dataclass
class Changeable(RankedScore):
    """With a parameter, and not even frozen."""

    price: float = 0.01
    name: ClassVar[str] = "changeable"

    def formula(self, ranks):
        return ranks.above + self.price * ranks.n_above


class Certain(RankedScore):
    """The best score may be -inf."""

    name = "certain"

    def formula(self, ranks):
        return np.where(ranks.n_above == 0, -np.inf, ranks.above)


@pytest.mark.parametrize(
    "noise", [0.2, nacp.GroupNoise([0, 0, 0, 1, 1, 2, 2], 0.2)], ids=["uniform", "groups"]
)
@pytest.mark.parametrize(
    "score", [Plain(), Changeable(), Steep(), Branching(), Certain()], ids=lambda score: score.name
)
def test_a_score_of_ones_own_needs_one_formula(score, noise, dtype):
    values = rows(7, dtype, n=200)
    labels = np.random.default_rng(8).integers(7, size=200)
    scores = scores_by_definition(score, values)
    np.testing.assert_array_equal(score.scores(values), np.maximum(scores, np.finfo(float).min))
    for alpha in (0.1, 0.5, 0.9):
        options = {"noise": noise, "alpha": alpha, "guarantee": "none"}
        cal = nacp.calibrate(values, labels, score=score, **options)
        given = nacp.calibrate(scores, labels, score="precomputed", **options)
        assert (cal.native_threshold, cal.estimate) == (given.native_threshold, given.estimate)
        np.testing.assert_array_equal(np.asarray(cal.predict_set(values)), scores <= cal.threshold)


def test_a_formula_with_an_if_gives_what_the_same_without_gives():
    values = rows(7, np.float64, n=200)
    labels = np.random.default_rng(8).integers(7, size=200)
    branching, straight = (
        nacp.calibrate(values, labels, noise=0.1, score=score) for score in (Branching(), Straight())
    )
    assert branching.native_threshold == straight.native_threshold
    assert branching.predict_set(values).to_lists() == straight.predict_set(values).to_lists()
