"""ACNL and CRCP against what the code of their authors computed on its own examples.

Thresholds of nacp lie on a grid: each is the next point of it at or above the exact one.
"""

import math
import os
from pathlib import Path

import numpy as np
import pytest

import nacp
from nacp.coverage.grid import BY_CLASS, GRID
from nacp.guarantees.acnl import acnl_correction
from nacp.guarantees.crcp import crcp_correction
from nacp.stats.bounds import expected_excess

FOLDER = os.environ.get("NACP_BENCHMARK_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="NACP_BENCHMARK_DATA is not set")

OPTIONS = {"score": "precomputed", "alpha": 0.1}
CLASS_GRID = GRID[BY_CLASS]


def read(name):
    return np.load(Path(FOLDER) / "outside" / f"{name}.npz")


def steps_between(first, second, grid):
    """How many steps of a grid lie between two thresholds, once both are moved up to it."""
    return abs(int(np.searchsorted(grid, first)) - int(np.searchsorted(grid, second)))


class Example:
    """ACNL's example, with the estimate of the coverage of each class as its authors define it."""

    def __init__(self):
        found = read("acnl_example1")
        self.S, self.labels = found["S"], found["Yc"].astype(int)
        self.tau, self.tau_marginal = found["tau"], float(found["tau_marg"])
        self.n, self.k = self.S.shape
        self.noise = nacp.MatrixNoise(found["T"])
        self.counts = np.bincount(self.labels, minlength=self.k)
        self.noisy = self.counts / self.n
        self.true = self.noisy @ np.linalg.inv(found["T"])
        posterior = (found["T"] * self.true[:, None] / self.noisy).T
        self.V = np.linalg.inv(posterior)

    def calibrate(self, **options):
        given = OPTIONS | {"noise": self.noise, "guarantee": "acnl", "crossing": "first"} | options
        return nacp.calibrate(self.S, self.labels, **given)

    def coverage(self, label, t):
        """The sum over the noisy classes l of V[label, l] times the share of l's points in the set."""
        shares = [np.mean(self.S[self.labels == other, label] <= t) for other in range(self.k)]
        return float(self.V[label] @ shares)

    def target(self, label):
        inverse = self.noise.inverse(self.k)
        count, least = int(self.counts[label]), self.counts.min()
        return 0.9 + acnl_correction(count, least, inverse, self.true, self.noisy, label)

    def first_crossing(self, label, target):
        return next(t for t in np.sort(self.S[:, label]) if self.coverage(label, t) >= target)


@pytest.fixture(scope="module")
def example():
    return Example()


def test_acnl_by_class_is_the_authors_rule_and_what_their_code_found(example):
    """Their constant c(n) is the mean of 1,000 draws whose standard deviation is 0.33/sqrt(n)."""
    near = 0
    for label, threshold in example.calibrate(by="class").thresholds.items():
        target = example.target(label)
        exact = example.first_crossing(label, target)
        assert threshold == CLASS_GRID[np.searchsorted(CLASS_GRID, exact)]
        error = 4 * 0.33 / math.sqrt(1000 * example.counts[label])
        low, high = (example.first_crossing(label, target + each) for each in (-error, error))
        assert low <= example.tau[label] <= high
        near += steps_between(threshold, example.tau[label], CLASS_GRID) <= 1
    assert near >= 3, "the error of their constant moves one of the four by more than a step"


def test_acnl_for_all_classes_is_what_the_authors_code_finds_with_the_exact_constant(example):
    cal = example.calibrate()
    assert steps_between(cal.threshold, 0.7587207607483097, GRID) == 0
    # With their constant: its error moves the target by at most this.
    error = 4 * 0.33 / math.sqrt(1000 * example.n)
    assert expected_excess(example.n) > error
    near = nacp.coverage_curve(
        example.S, example.labels, noise=example.noise, score="precomputed", thresholds=[example.tau_marginal]
    )
    assert near.clean[0] == pytest.approx(0.9 + cal.correction, abs=error + 2 / example.n)


CRCP_FILES = ["crcp_hypercube-123", "crcp_hypercube-124", "crcp_logistic-123"]


def crcp_rule(S, labels, rate, priors, noisy_priors, correction):
    """The authors' rule: the first label score at which their estimate reaches the target.

    `priors` are the frequencies of the true classes, `noisy_priors` those of the noisy labels.
    """
    n, k = S.shape
    P = (1 - rate) * np.eye(k) + rate / k
    posterior = priors[:, None] * P / noisy_priors  # p(true = i | noisy = j)
    weights = priors[:, None] * np.linalg.inv(posterior).T - np.diag(noisy_priors)
    own = np.sort(S[np.arange(n), labels])
    estimate = np.arange(1, n + 1) / (n + 1)
    for i in range(k):
        for j in range(k):
            among = np.sort(S[labels == j, i])
            estimate += weights[i, j] * np.searchsorted(among, own, side="right") / len(among)
    return own[np.argmax(estimate >= 0.9 + correction)]


@pytest.mark.parametrize("name", CRCP_FILES)
def test_crcp_and_split_conformal_prediction_are_what_the_authors_code_found(name):
    """In their synthetic experiments they take all classes to be equally frequent.

    In the file "logistic" they are not, so with the frequencies of the sample the threshold is another one.
    Without noise, their quantile is the ceil((n + 1)(1 - alpha)) + 1st score.
    """
    found = read(name)
    S, labels, rate = found["S"], found["labels"].astype(int), float(found["eps"])
    even, inverse = np.full(5, 1 / 5), nacp.UniformNoise(rate).inverse(5)
    theirs = float(found["their_crcp"])
    assert theirs == crcp_rule(S, labels, rate, even, even, crcp_correction(len(S), inverse, even))
    noisy = np.bincount(labels) / len(labels)
    priors = np.linalg.solve((1 - rate) * np.eye(5) + rate / 5, noisy)
    rule = crcp_rule(S, labels, rate, priors, noisy, crcp_correction(len(S), inverse, noisy))
    cal = nacp.calibrate(S, labels, noise=rate, guarantee="crcp", crossing="first", **OPTIONS)
    assert steps_between(cal.threshold, rule, GRID) == 0
    assert (steps_between(cal.threshold, theirs, GRID) == 0) == (name != "crcp_logistic-123")
    own = np.sort(S[np.arange(len(S)), labels])
    split = nacp.calibrate(S, labels, noise=None, **OPTIONS).threshold
    assert own.searchsorted([split, found["their_cp"]]).tolist() == [9000, 9001]
