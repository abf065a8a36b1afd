"""The crossing at sizes where it is not seen by eye, against sorting all scores."""

import numpy as np
import pytest

import nacp
from nacp.coverage.grid import GRID, cells_of
from nacp.paper import twins

N, K = 600, 150
NOISES = {
    "uniform": nacp.UniformNoise(0.2),
    "matrix": nacp.MatrixNoise(
        0.75 * np.eye(K) + 0.25 * np.random.default_rng(5).dirichlet(np.full(K, 0.3), K)
    ),
}


def by_sorting_everything(scores, weights, targets, rule):
    """The definition: a signed, weighted ECDF over all n k scores."""
    order = np.argsort(scores, axis=None)
    distinct, last = np.unique(scores.ravel()[order][::-1], return_index=True)
    exact = np.cumsum(weights.ravel()[order].astype(np.longdouble))  # float64 would round by 1e-12
    estimate = exact[scores.size - 1 - last] / len(scores)
    for target in targets:
        reached = estimate >= target - 1e-12
        if rule == "last":
            reached = np.logical_and.accumulate(reached[::-1])[::-1]
        yield distinct[int(np.argmax(reached))]


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("rule", ["first", "last"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_scores_of_all_sizes_are_moved_up_to_the_grid(noise, rule):
    """Next to 0 and 1, neighbours, beyond 2^64, and infinite ones: beyond the grid all are infinite."""
    rng = np.random.default_rng(3)
    sizes = np.concatenate([[0.0, np.inf, 1e300, 1e19], 2.0 ** np.arange(-1074, -60, 7)])
    numbers = np.concatenate([sizes, -sizes, np.nextafter(0.3, [0, 1]), np.nextafter(1.0, [0, 2])])
    scores = numbers[rng.integers(len(numbers), size=(N, K))]
    labels = rng.integers(K, size=N)
    alphas = [0.05, 0.3, 0.5, 0.6, 0.99]
    found = nacp.calibrate(
        scores, labels, noise=noise, score="precomputed", guarantee="none", alpha=alphas, crossing=rule
    )
    weights, targets = noise.inverse(K).dense()[labels], [1 - alpha for alpha in alphas]
    expected = by_sorting_everything(GRID[cells_of(scores)], weights, targets, rule)
    assert [cal.threshold for cal in found] == list(expected)


def test_targets_above_one_have_no_threshold():
    probs, labels = twins.simulate("cifar100", n=3000, random_state=0)
    noisy = nacp.UniformNoise(0.2).sample(labels, 100, random_state=0)
    with pytest.warns(nacp.NoValidThresholdWarning, match="above 1"):
        cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="acnl")
    assert cal.threshold == np.inf


def test_the_tally_has_all_pairs_also_where_scores_are_infinite():
    probs, labels = twins.simulate("cifar10", n=200, random_state=0)
    cal = nacp.calibrate(
        probs, labels, noise=0.1, score=lambda p: np.where(p < 0.01, np.inf, -p), guarantee="none"
    )
    assert cal.tally.pairs.sum() == 2000
    assert cal.tally.hits.sum() == 200
