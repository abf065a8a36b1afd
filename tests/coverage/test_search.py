"""The search at sizes where it has to search: exact, and in few reads of the rows.

The bound (`nacp.coverage.crossing`): after the labels were scored, one read tallies all cells, and each of
the others cuts every open cell that it does not settle, in two at the least. Scores have 64 bits, so there
are 65 reads at the most; where open cells are cut in 4,096 (while no more than 16 are open at once) there are
7.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import nacp
from nacp.coverage import Sample, together
from nacp.engine import engine_name
from nacp.guarantees import as_guarantee, find
from nacp.paper import twins
from nacp.points import open_points, watching
from nacp.tuning import tuned

N, K = 3000, 150
SCORES = {"hps": nacp.HPS(), "aps": nacp.APS(), "aps-det": nacp.APS(randomized=False), "raps": nacp.RAPS()}


def smooth(rng):
    return rng.standard_exponential((N, K)) ** 4


def mostly_zeros(rng):
    """Nine of ten probabilities are exactly 0: one atom that holds most of the pairs."""
    return np.where(rng.random((N, K)) < 0.9, 0.0, smooth(rng)) + 1e-3 * np.eye(K)[np.arange(N) % K]


def nearly_certain(rng):
    return np.eye(K)[rng.integers(K, size=N)] * 1e4 + smooth(rng)


NOISES = {
    "uniform .2": nacp.UniformNoise(0.2),
    "uniform .8": nacp.UniformNoise(0.8),
    "groups": nacp.GroupNoise(np.arange(K) // 6, rate=0.4),
    "matrix": nacp.MatrixNoise(
        0.75 * np.eye(K) + 0.25 * np.random.default_rng(5).dirichlet(np.full(K, 0.3), K)
    ),
}


def by_sorting_everything(scores, weights, targets, rule):
    """The definition: a signed, weighted ECDF over all n k scores. Thresholds, and the estimates there."""
    order = np.argsort(scores, axis=None)
    distinct, last = np.unique(scores.ravel()[order][::-1], return_index=True)
    exact = np.cumsum(weights.ravel()[order].astype(np.longdouble))  # float64 would round by 1e-12
    estimate = (exact[scores.size - 1 - last] / len(scores)).astype(np.float64)
    for target in targets:
        reached = estimate >= target - 1e-12
        if rule == "last":
            reached = np.logical_and.accumulate(reached[::-1])[::-1]
        place = int(np.argmax(reached))
        yield distinct[place], estimate[place]


class Reads:
    """How often all of n rows were read."""

    def __init__(self, n: int) -> None:
        self._n, self._rows = n, 0

    def see(self, rows: int) -> None:
        self._rows += rows

    def __int__(self) -> int:
        """Less than n rows more are looked at for a hint."""
        return self._rows // self._n


@contextmanager
def searched(n: int, score: nacp.scores.Score | None = None) -> Iterator[Reads]:
    """Count the reads of calibrate() after the one that scores the labels; some scores need none for that."""
    reads = Reads(n)
    reads.see(0 if score is not None and score.spec.by_entry else -n)
    with watching(reads.see):
        yield reads


def make_points(make, noise, seed=7):
    rng = np.random.default_rng(seed)
    probs = make(rng)
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    return probs, noise.sample(np.argmax(probs * rng.random((N, K)), axis=1), K, random_state=9)


ALPHAS = (0.01, 0.1, 0.4)


@pytest.mark.parametrize("rule", ["first", "last"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("make", [smooth, mostly_zeros, nearly_certain])
@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_the_search_finds_what_sorting_everything_finds_in_few_reads(score, make, noise, rule):
    probs, labels = make_points(make, noise)
    scores = score.scores(probs) - score.offset if score.offset == 0 else -probs.astype(np.float64)
    weights = noise.inverse(K).dense()[labels]
    expected = by_sorting_everything(scores, weights, [1 - alpha for alpha in ALPHAS], rule)
    for alpha, (threshold, estimate) in zip(ALPHAS, expected, strict=True):
        with searched(N, score) as reads:
            cal = nacp.calibrate(
                probs, labels, noise=noise, alpha=alpha, score=score, guarantee="none", crossing=rule
            )
        # All 450,000 pairs may be held, so after the tally one read collects what is open.
        assert int(reads) <= 2
        assert cal.native_threshold == threshold
        assert cal.estimate == pytest.approx(estimate, abs=1e-12)


# How many reads there may be, where pairs are not to be collected or few of them are.
BOUNDS = {
    "in two": (65, {"collected_pairs": 0, "new_cells": 2}),
    "in two, and few collected": (65, {"collected_pairs": 16, "new_cells": 2}),
    "in many": (7, {"collected_pairs": 0, "new_cells": 1 << 16}),
    "in many, and some collected": (7, {"collected_pairs": 1000, "new_cells": 1 << 16}),
}


@pytest.mark.parametrize(("most", "how"), BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("make", [smooth, mostly_zeros])
@pytest.mark.parametrize("score", [nacp.HPS(), nacp.RAPS()], ids=["hps", "raps"])
def test_however_cells_are_cut_there_are_no_more_reads_than_bits(score, make, noise, most, how):
    probs, labels = (part[:600] for part in make_points(make, noise))
    options = {"noise": noise, "alpha": [0.1, 0.4], "score": score, "guarantee": "none"}
    usual = nacp.calibrate(probs, labels, **options)
    with tuned(hint_pairs=0, hint_entries=1, hint_rows=1, kept_pairs=0, **how), searched(600, score) as reads:
        found = nacp.calibrate(probs, labels, **options)
    assert 2 <= int(reads) <= most
    for cal, same in zip(found, usual, strict=True):
        assert (cal.native_threshold, cal.estimate) == (same.native_threshold, same.estimate)
        assert cal.tally == same.tally


@pytest.mark.parametrize("rule", ["first", "last"])
@pytest.mark.parametrize("noise", [NOISES["uniform .2"], NOISES["matrix"]], ids=["uniform", "matrix"])
def test_numbers_of_all_sizes_are_told_apart_within_the_bound(noise, rule):
    """Scores whose cells hold the most bits: next to 0, beyond 2^64, neighbours, and infinite ones."""
    rng = np.random.default_rng(3)
    sizes = np.concatenate([[0.0, np.inf, 1e300, 1e19], 2.0 ** np.arange(-1074, -60, 7)])
    numbers = np.concatenate([sizes, -sizes, np.nextafter(0.3, [0, 1]), np.nextafter(1.0, [0, 2])])
    scores = numbers[rng.integers(len(numbers), size=(600, K))]
    labels = rng.integers(K, size=600)
    alphas = [0.05, 0.3, 0.5, 0.6, 0.99]
    finite = np.maximum(scores, np.finfo(float).min)  # which stands for minus infinity
    weights, targets = noise.inverse(K).dense()[labels], [1 - alpha for alpha in alphas]
    expected = [threshold for threshold, _ in by_sorting_everything(finite, weights, targets, rule)]
    for most, how in BOUNDS.values():
        with tuned(hint_pairs=0, hint_entries=1, hint_rows=1, kept_pairs=0, **how), searched(600) as reads:
            found = nacp.calibrate(
                scores,
                labels,
                noise=noise,
                score="precomputed",
                guarantee="none",
                alpha=alphas,
                crossing=rule,
            )
        assert int(reads) <= most
        assert [cal.native_threshold for cal in found] == expected


def test_a_hint_that_is_right_saves_a_read_and_one_that_is_wrong_costs_none():
    probs, labels = make_points(smooth, NOISES["uniform .8"])
    options = {"noise": 0.8, "guarantee": "none", "score": "aps"}
    reads = []
    for hint in ({}, {"hint_errors": 0.0, "hint_entries": 1, "hint_rows": 1}):
        with tuned(kept_pairs=0, **hint), searched(N) as counted:
            cal = nacp.calibrate(probs, labels, **options)
        reads.append((int(counted), cal.native_threshold))
    (right, threshold), (wrong, same) = reads
    assert (right, wrong) == (1, 2)
    assert same == threshold


@pytest.mark.parametrize("rule", ["first", "last"])
@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
@pytest.mark.parametrize("seed", range(4))
def test_many_alphas_at_once_find_what_each_finds_alone(score, rule, seed):
    """And in no more reads than one: what is open for all of them is collected at once."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(2 * K, 0.3), N)
    clean = (probs.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)
    labels = nacp.UniformNoise(0.2).sample(clean, 2 * K, rng)
    alphas = np.sort(rng.uniform(0.01, 0.5, 12)).tolist()
    for rate in (0.1, 0.2):
        options = {"noise": rate, "score": score, "guarantee": "none", "crossing": rule}
        with searched(N, score) as reads:
            found = nacp.calibrate(probs, labels, alpha=alphas, **options)
        assert int(reads) <= 2
        for alpha, cal in zip(alphas, found, strict=True):
            alone = nacp.calibrate(probs, labels, alpha=alpha, **options)
            assert (cal.native_threshold, cal.estimate) == (alone.native_threshold, alone.estimate)


def test_alphas_share_the_room_there_is_for_pairs():
    """What may be collected is not all taken by the first of them, so that one read does for all."""
    probs, labels = make_points(smooth, NOISES["uniform .2"])
    options = {"noise": 0.2, "guarantee": "none", "score": SCORES["aps-det"]}
    for alphas in (0.1, [0.3, 0.2, 0.1]):
        with tuned(kept_pairs=0, collected_pairs=1000, hint_entries=64 * K), searched(N) as reads:
            nacp.calibrate(probs, labels, alpha=alphas, **options)
        assert int(reads) == 1


def test_targets_above_one_alone_need_no_hint():
    probs, labels = twins.simulate("cifar100", n=3000, random_state=0)
    noisy = nacp.UniformNoise(0.2).sample(labels, 100, random_state=0)
    with pytest.warns(nacp.NoValidThresholdWarning, match="above 1"):
        cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="acnl")
    assert cal.threshold == np.inf


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_whoever_counts_further_takes_nothing_from_those_who_look_closer():
    """One of several conversations needs the cells beyond the limit; another is inside a cut one."""
    rng = np.random.default_rng(10)
    probs = rng.dirichlet(np.full(12, 0.4), 120)
    noise = nacp.MatrixNoise(0.7 * np.eye(12) + 0.3 * rng.dirichlet(np.full(12, 0.5), 12))
    labels = (probs.cumsum(axis=1) > rng.random((120, 1))).argmax(axis=1)
    found = []
    for counted in (1 << 22, 48):
        with tuned(
            hint_pairs=0,
            hint_entries=160,
            hint_rows=1,
            hint_errors=0.2,
            collected_pairs=3,
            counted_pairs=counted,
        ):
            cals = nacp.calibrate(
                probs, labels, noise=noise, score=nacp.APS(), guarantee="expected", alpha=[0.1, 1e-4, 0.2]
            )
        found.append([(cal.native_threshold, cal.estimate) for cal in cals])
    assert found[0] == found[1]


@pytest.mark.parametrize("noise", [nacp.UniformNoise(0.2), nacp.GroupNoise(np.arange(100) // 5, rate=0.2)])
def test_the_curve_knows_of_labels_above_the_limit_up_to_which_pairs_were_counted(noise):
    probs, clean = twins.simulate("cifar100", n=2000, random_state=0)
    noisy = noise.sample(clean, 100, random_state=1)
    with tuned(hint_pairs=0, counted_pairs=0):
        cal = nacp.calibrate(probs, noisy, noise=noise, score="aps", guarantee="none")
    curve = cal.curve
    exact = nacp.coverage_curve(probs, noisy, noise=noise, score="aps", thresholds=curve.thresholds)
    assert cal.tally.hits.sum() == 2000
    assert curve.noisy[-1] < 0.95
    assert curve.noisy.tolist() == exact.noisy.tolist()
    np.testing.assert_allclose(curve.clean, np.clip(exact.clean, 0, 1), rtol=0, atol=1e-12)


def test_the_tally_has_all_pairs_also_where_scores_are_infinite():
    probs, labels = twins.simulate("cifar10", n=200, random_state=0)
    cal = nacp.calibrate(
        probs, labels, noise=0.1, score=lambda p: np.where(p < 0.01, np.inf, -p), guarantee="none"
    )
    assert cal.tally.pairs.sum() == 2000
    assert cal.tally.hits.sum() == 200


@pytest.mark.parametrize("first", ["uniform .2", "matrix"])
def test_models_may_share_a_sample_whose_scores_were_kept_without_labels(first):
    """Who weighs all pairs alike needs no labels; who does not keeps his own."""
    rng = np.random.default_rng(9)
    probs = smooth(rng).astype(np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = NOISES["uniform .2"].sample(probs.argmax(axis=1), K, random_state=0)
    pac, names = as_guarantee("pac"), [first, *(name for name in NOISES if name != first)]

    def thresholds(sample, name):
        (found,) = sample.ask(find(pac, sample, NOISES[name], [0.1], "last", 0))
        return found.finding.threshold, found.finding.estimate, found.finding.deviation

    with tuned(hint_pairs=1 << 10, counted_pairs=1 << 10, kept_pairs=1 << 16):
        rows, numbers, _ = open_points(probs, labels)
        shared = Sample(rows, numbers, nacp.APS())
        for name in names:
            rows, numbers, _ = open_points(probs, labels)
            assert thresholds(shared, name) == thresholds(Sample(rows, numbers, nacp.APS()), name)
        assert shared.kept is None or shared.kept.labels


@pytest.mark.skipif(engine_name() != "native", reason="the compiled engine alone keeps scores")
@pytest.mark.parametrize("score", [nacp.HPS(), nacp.APS()], ids=repr)
def test_models_that_ask_at_once_keep_labels_for_whoever_needs_them(score):
    """Else the rows would be read for it again."""
    probs, labels = make_points(smooth, NOISES["matrix"])
    pac, rows_read = as_guarantee("pac"), {}
    for names in (["matrix"], ["uniform .2", "matrix"]):
        reads = Reads(1)
        with tuned(hint_pairs=1 << 10, counted_pairs=1 << 10, kept_pairs=1 << 17), watching(reads.see):
            rows, numbers, _ = open_points(probs, labels)
            sample = Sample(rows, numbers, score)
            talks = [find(pac, sample, NOISES[name], [0.1], "last", 0) for name in names]
            sample.ask(together(talks))
        assert sample.kept is not None
        assert sample.kept.labels
        rows_read[len(names)] = int(reads)
    assert rows_read[2] < rows_read[1] + N
