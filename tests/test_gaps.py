"""Where estimates cross bars between the scores of labels, by cutting gaps: against following every pair."""

from types import SimpleNamespace

import numpy as np
import pytest

from nacp.coverage import gaps as module
from nacp.coverage.gaps import GapPairs, Gaps
from nacp.coverage.parting import Crossings


def some_gaps(rng, number, spread):
    """Gaps of a few groups, ascending, with pairs in each; scores may be equal, and zeros of both signs."""
    groups = np.sort(rng.integers(4, size=number))
    ends = np.sort(rng.standard_normal(2 * number)).reshape(number, 2)
    ends[np.append(True, groups[1:] != groups[:-1]), 0] = -np.inf  # below the first label of a group
    gap = np.sort(rng.integers(number, size=400))
    low, high = np.maximum(ends[gap, 0], ends[gap, 1] - 1), ends[gap, 1]
    score = low + (high - low) * rng.integers(1, spread, 400) / spread
    if spread < 99:
        score[(low < 0) & (high > 0) & (rng.random(400) < 0.5)] = 0.0
        score[(score == 0) & (rng.random(400) < 0.5)] = -0.0
    pairs = GapPairs(gap, score, rng.integers(-3, 4, 400))
    return groups, ends, pairs


def by_definition(begin, groups, mine, pairs, bars, rule):
    """Where each group crosses its bar: after every pair, one score after the other."""
    found = {}
    for group in np.unique(groups):
        steps = []  # (score, estimate there, losses up to there), from the beginning of each gap on
        for g in np.flatnonzero((groups == group) & mine):
            own, gains, losses = (int(each[g]) for each in begin)
            inside, steps = pairs.gaps == g, [*steps, (None, own + gains - losses, losses)]
            for q in np.unique(pairs.scores[inside]):
                rest = pairs.rest[inside & (pairs.scores <= q)]
                steps.append((q, own + gains - losses + rest.sum(), losses - rest[rest < 0].sum()))
        reached = [covered >= bars[group] for _, covered, _ in steps]
        if rule == "first":
            at = next((i for i, (q, *_) in enumerate(steps) if reached[i] and q is not None), None)
        else:
            at = max((i for i in range(len(steps)) if not reached[i]), default=None)
            at = None if at is None or at + 1 == len(steps) or steps[at + 1][0] is None else at + 1
        if at is not None:
            found[int(group)] = steps[at]
    return found


@pytest.mark.parametrize("rule", ["first", "last"])
@pytest.mark.parametrize("parts", [1, 2, 5, 128])
@pytest.mark.parametrize("spread", [5, 10**6], ids=["ties", "no ties"])
def test_bars_are_crossed_where_following_every_pair_finds_it(monkeypatch, rule, parts, spread):
    monkeypatch.setattr(module, "_FEW", 3)
    monkeypatch.setattr(module, "_PARTS", parts)
    coverage, crossed = SimpleNamespace(own_unit=1.0, unit=1.0, mass=np.ones(4), number=4), 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        groups, ends, pairs = some_gaps(rng, 9, spread)
        may = rng.random((2, 9)) < 0.8
        begin = [rng.integers(20, size=9), rng.integers(20, size=9), rng.integers(20, size=9)]
        # As it is of marks: at its end, a gap is not short (last); where it begins, it is (first).
        sums = np.bincount(pairs.gaps, pairs.rest, minlength=9).astype(np.int64)
        level = begin[0] + begin[1] - begin[2]
        bars = np.stack([np.full(4, float((level + sums).min() if rule == "last" else level.max() + 1))] * 2)
        bars[1] += -2 if rule == "last" else 2
        results = [Crossings.nowhere(4), Crossings.nowhere(4)]
        some = np.split(np.arange(400), [100, 150])
        given = [GapPairs(*(each[rows] for each in pairs)) for rows in some]
        Gaps.between(groups, *ends.T, *begin).settle(coverage, given, may, bars, rule, results)
        for mine, bar, found in zip(may, bars, results, strict=True):
            expected = by_definition(begin, groups, mine, pairs, bar, rule)
            for group in range(4):
                q, covered, losses = expected.get(group, (np.inf, 1.0, 0.0))
                assert found.thresholds[group] == q
                assert (found.estimates[group], found.losses[group]) == (covered, losses)
            crossed += len(expected)
    assert crossed >= 40


@pytest.mark.parametrize("zeros", [[-0.0, 0.0], [0.0, 0.0]])
def test_zeros_of_both_signs_are_one_score(monkeypatch, zeros):
    monkeypatch.setattr(module, "_FEW", 1)
    monkeypatch.setattr(module, "_PARTS", 2)
    coverage = SimpleNamespace(own_unit=1.0, unit=1.0, mass=np.ones(1), number=1)
    one, found = np.zeros(1, dtype=np.int64), Crossings.nowhere(1)
    scores = np.array([-1e-310, *zeros, 1e-310])  # so small that the bits of both zeros are told apart
    pairs = GapPairs(np.zeros(4, dtype=np.int64), scores, np.array([0, 2, -2, 0]))
    gaps = Gaps.between(one, np.array([-1.0]), np.array([1.0]), one, one, one)
    gaps.settle(coverage, [pairs], np.ones((1, 1), dtype=bool), np.ones((1, 1)), "first", [found])
    assert found.thresholds[0] == np.inf
