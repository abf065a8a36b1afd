"""What corrections are computed from, set by set; what guarantees declare; the models of inexact noise."""

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest

import nacp
from nacp.coverage.curve import Curve
from nacp.coverage.tally import Sample, Weights
from nacp.guarantees import GUARANTEES, Guarantee, Problem, pointwise
from nacp.guarantees.base import Finding, find
from nacp.guarantees.expected import _too_few, _worst_case_of_classes
from nacp.guarantees.pac import _bets
from nacp.noise.base import RATE_STEP
from nacp.points import open_rows
from nacp.stats.bounds import chernoff
from nacp.stats.tails import bernstein_excess
from tests.guarantees.problems import NOISES, K, sample, widest_oscillation

COUNTS = np.array([30.0, 10, 25, 5, 20, 10])
GROUPS = [np.array([2]), np.array([0, 3]), np.array([1, 4, 5])]


def dense(noise):
    """P and W."""
    P = noise.matrix(K).dense()
    return P, np.linalg.inv(P)


def problem(noise, members=None, alpha=0.2):
    return Problem(alpha, 100, noise, noise.inverse(K), COUNTS, members)


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_the_range_is_that_over_all_sets(kind, alpha):
    noise = NOISES[kind]
    W, sets = dense(noise)[1], np.array(list(product([0, 1], repeat=K)))
    shares = W @ sets.T - (1 - alpha)
    found = problem(noise, None, alpha).range
    np.testing.assert_allclose(found, (shares.min(), shares.max()), rtol=1e-9)
    for members in GROUPS:
        shares = W[:, members] @ (np.unique(sets[:, members], axis=0).T - (1 - alpha))
        found = problem(noise, members, alpha)
        np.testing.assert_allclose(found.range, (shares.min(), shares.max()), rtol=1e-9)
        ends = found.ranges(found.inverse)
        np.testing.assert_allclose(ends, (shares.min(axis=1), shares.max(axis=1)), rtol=1e-9)


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_the_deviation_is_that_of_sets_with_the_true_label_or_none(kind, alpha):
    """Sets hold the true label with probability 1 - alpha, and no other; classes are equally frequent."""
    noise, each = NOISES[kind], []
    P, W = dense(noise)
    share = np.array([(1 - alpha) * (P[i] @ W[:, i] ** 2) for i in range(K)]).mean()
    assert problem(noise, None, alpha).deviation == pytest.approx(math.sqrt(share - (1 - alpha) ** 2))
    for one in range(K):  # the second moment of s for a group of one class
        missed = W[:, one] ** 2 * (1 - alpha) ** 2
        hit = W[:, one] ** 2 * alpha**2
        moments = [P[i] @ ((1 - alpha) * hit + alpha * missed if i == one else missed) for i in range(K)]
        each.append(np.mean(moments))
    for members in GROUPS:
        spread = np.mean(each) * len(members) / (len(members) / K) ** 2
        assert problem(noise, members, alpha).deviation == pytest.approx(math.sqrt(spread))


@pytest.mark.parametrize("kind", NOISES)
def test_a_group_has_the_mass_that_the_labels_give_it(kind):
    noise = NOISES[kind]
    masses = COUNTS @ dense(noise)[1]
    assert problem(noise).per_point == 1 / 100
    for members in GROUPS:
        assert problem(noise, members).per_point == pytest.approx(1 / masses[members].sum())
    none = Problem(0.2, 100, noise, noise.inverse(K), -COUNTS, GROUPS[0])
    assert none.per_point == math.inf


@pytest.mark.parametrize("kind", NOISES)
def test_the_worst_case_of_classes_rests_on_the_second_moments_of_the_labels(kind):
    noise, alpha, n = NOISES[kind], 0.2, 100
    W = dense(noise)[1]
    for members in GROUPS:
        choices = np.array(list(product([0, 1], repeat=len(members)))) - (1 - alpha)
        shares = W[:, members] @ choices.T
        squares, missed = (shares**2).max(axis=1), alpha / 1000
        mean = np.array([COUNTS @ squares / n / squares.max()])
        variance = float(chernoff(mean, n, missed)[0] * squares.max())
        excess = bernstein_excess(n, variance, float(np.ptp(shares)))
        mass = (COUNTS @ W)[members].sum()
        expected = n / mass * excess + missed
        assert _worst_case_of_classes(problem(noise, members)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", NOISES)
def test_a_group_has_too_few_points_if_its_mass_is_less_than_two_standard_deviations(kind):
    noise, said = NOISES[kind], set()
    W = dense(noise)[1]
    for members in GROUPS:
        weights = W[:, members].sum(axis=1)
        for share in np.linspace(0.0137, 1, 40):  # of the labels that are of the group
            inside = np.isin(np.arange(K), members)
            counts = 60.0 * np.where(inside, share / inside.sum(), (1 - share) / (~inside).sum())
            mass, deviation = counts @ weights, math.sqrt(counts @ weights**2)
            found = _too_few(Problem(0.2, 60, noise, noise.inverse(K), counts, members))
            said.add(found is None)
            assert (found is None) == (weights.min() >= 0 or mass >= 2 * deviation)
            assert found is None or f"about {max(mass, 0):.3g} of the points" in found
            assert found is None or f"({deviation:.3g} each)" in found
    assert said == {False, True}
    assert _too_few(problem(noise)) is None
    exact = nacp.UniformNoise(0.0)  # without noise no weights cancel
    assert _too_few(Problem(0.2, 60, exact, exact.inverse(K), np.ones(K), GROUPS[0])) is None


# What guarantees declare

DECLARED = {  # as docs/guarantees.md proves it
    "promises_truth": "acnl binomial crcp expected nacp pac",
    "only_uniform": "binomial",
    "only_as_given": "split",
    "needs_last": "binomial expected pac",
    "takes_interval": "binomial expected nacp pac",
    "takes_radius": "expected pac",
    "covers_rates": "pac",
    "takes_checked": "expected none pac",
    "checked_alone": "expected",
    "takes_several": "expected nacp none pac split",
    "takes_classes": "acnl expected none pac split",
    "takes_groups_of_classes": "binomial crcp expected nacp none pac split",
    "all_alphas": "nacp",
    "needs_points": "pac",
    "needs_squares": "binomial",
    "takes_unlabelled": "binomial",
    "crosses_target": "acnl crcp nacp none",
}


def test_guarantees_declare_what_is_proved():
    found = {
        name: " ".join(sorted(g for g, kind in GUARANTEES.items() if getattr(kind, name)))
        for name in DECLARED
    }
    assert found == DECLARED
    for kind in GUARANTEES.values():
        assert ("true label" in kind().promise(0.1)) == kind.promises_truth
    # Of a guarantee from outside nothing is assumed that it does not declare.
    assert {name for name in DECLARED if getattr(Guarantee, name)} == {
        "promises_truth",
        "takes_groups_of_classes",
    }


@dataclass(frozen=True)
class Listed(Guarantee):
    """Finds the noise rate as its threshold, and writes down what it was asked."""

    covers: bool = False
    name: ClassVar[str] = "listed"

    @property
    def covers_rates(self):
        return self.covers

    def find(self, curves, alphas, crossing, sample=None, seed=0):
        (curve,) = set(curves)
        ASKED.append((curve.noise, curve.radius, curve.rate_step, curve.widest is not None))
        return [Finding(curve.noise.rate, 0.5, gap=1 - curve.noise.rate) for _ in alphas]

    def promise(self, alpha):
        return ""

    def excess(self, problem, deviation):
        return 0.0


ASKED = []


@pytest.mark.parametrize("covers", [False, True])
def test_an_interval_of_rates_is_tried_at_its_ends_or_covered_step_by_step(covers):
    probs, _, labels = sample(200, nacp.UniformNoise(0.2))
    noise = nacp.UniformNoise(0.2, interval=(0.15, 0.25))
    points = Sample.of(open_rows(probs), labels, nacp.HPS())

    def curve_under(model, radius):
        return Curve.of(points, model)

    ASKED.clear()
    found = find(Listed(covers), curve_under, noise, [0.1, 0.2], "last", points)
    rates = [each.rate for each, *_ in ASKED]
    if covers:
        np.testing.assert_allclose(np.diff(rates[1:]), RATE_STEP)
        assert rates[1] <= 0.15 < rates[2]
        assert rates[-1] <= 0.25 < rates[-1] + RATE_STEP
    else:
        assert rates[1:] == [0.15, 0.25]
    assert ASKED[0] == (noise, 0.0, 0.0, False)
    assert [each[1:] for each in ASKED[1:]] == [(0.0, RATE_STEP * covers, True)] * (len(rates) - 1)
    for each in found:
        assert each.finding.threshold == max(rates[1:])
        assert each.finding.gap == 1 - min(rates[1:])
        assert each.curve.noise.rate == max(rates[1:])


@pytest.mark.parametrize("step", [0.0, RATE_STEP])
@pytest.mark.parametrize("radius", [0.0, 0.01])
def test_no_bet_can_lose_more_than_99_percent_of_its_wealth(step, radius):
    """The greatest loss is that of a point with the least share, where the noise is as much as it may be."""
    alpha, noise = 0.1, nacp.UniformNoise(0.4) if step else NOISES["random"]
    probs, _, labels = sample(200, noise)
    points = Sample.of(open_rows(probs), labels, nacp.HPS())
    curve = replace(Curve.of(points, noise), radius=radius, rate_step=step)
    W = dense(noise)[1]
    subsets = np.array(list(product([0, 1], repeat=K)))
    shares, doubt = W @ subsets.T, radius * widest_oscillation(W)
    target = 1 - alpha + step * alpha * (W[0, 0] - W[0, 1])
    bets = _bets(pointwise.Test.of(curve, alpha, 0.05), 0.05)
    loss = target + doubt - shares.min()
    assert bets._target == pytest.approx(target)
    assert bets._width == pytest.approx(shares.max() - (1 - alpha) + loss)
    np.testing.assert_allclose(bets._most * loss / bets._width, 0.99)


# The unit of the weights


@pytest.mark.parametrize("kind", [kind for kind in NOISES if kind != "uniform"])
@pytest.mark.parametrize("points", [1 << 10, 1 << 26])
def test_the_unit_of_weights_is_the_least_for_which_sums_cannot_overflow(kind, points):
    inverse = NOISES[kind].inverse(K)
    weights = Weights(inverse, points=points)
    rest = dense(NOISES[kind])[1] - np.diag(inverse.own)
    size = np.abs(rest).sum(axis=1).max() + np.abs(inverse.own).max()
    assert weights.unit == 2.0 ** (math.ceil(math.log2(size)) + math.log2(points) - 62)


def test_findings_of_guarantees_with_a_delta_have_the_deviation_of_a_share():
    probs, _, labels = sample(400, NOISES["uniform"])
    points = Sample.of(open_rows(probs), labels, nacp.HPS())
    curve, W = Curve.of(points, NOISES["uniform"], squares=True), dense(NOISES["uniform"])[1]
    for kind in GUARANTEES.values():
        guarantee = kind()
        (found,) = guarantee.find([curve], [0.4], "last", points)
        assert (found.deviation is None) == (guarantee.delta is None)
        if guarantee.delta is not None:
            shares = (W[labels] * (-probs <= found.threshold)).sum(axis=1)
            assert found.deviation == pytest.approx(shares.std(), rel=0.01)
