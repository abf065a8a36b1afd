"""What `plan` foretells: what calibration then takes, with a pilot sample and without."""

import math
from itertools import product

import numpy as np
import pytest

import nacp
from nacp.paper import twins
from nacp.stats.bounds import floor

K = 6
PAIRS = 0.75 * np.eye(K) + 0.25 * np.eye(K)[np.arange(K) ^ 1]
NOISES = {
    "uniform": nacp.UniformNoise(0.2),
    "groups": nacp.GroupNoise([0, 0, 0, 1, 1, 1], rate=0.3),
    "matrix": nacp.MatrixNoise(PAIRS),
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 6, "probs": np.full((3, 6), 1 / 6), "labels": [0, 1, 2]}, "50 rows or more"),
        ({"k": 1}, "k must be a whole number of at least 2; found 1"),
        ({"k": 10, "probs": np.full((3, 10), 0.1)}, "labels is missing; a pilot sample needs both"),
    ],
)
def test_a_wrong_argument_is_refused(arguments, words):
    with pytest.raises(nacp.InputError, match=words):
        nacp.plan(noise=0.1, **arguments)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_plan_foretells_what_calibration_costs(noise):
    n = 4000
    rng = np.random.default_rng(0)
    true = rng.integers(K, size=n)
    probs = np.exp(2 * (rng.standard_normal((n, K)) + 9 * np.eye(K)[true] * rng.random((n, 1))))
    probs /= probs.sum(axis=1, keepdims=True)
    labels = noise.sample(true, K, rng)
    found = nacp.plan(k=K, noise=noise, n=n, probs=probs, labels=labels, delta=0.01)
    assert isinstance(found.cheapest, nacp.PAC)
    assert [row.correction for row in found.rows] == sorted(row.correction for row in found.rows)
    paid = nacp.calibrate(probs, labels, noise=noise, guarantee="pac", delta=0.01).excess
    price = next(row.correction for row in found.rows if row.guarantee.name == "pac")
    assert price == pytest.approx(paid, rel=0.4)
    for row in found.rows:
        if row.n_needed is not None:
            again = nacp.plan(k=K, noise=noise, n=row.n_needed, probs=probs, labels=labels, delta=0.01)
            assert (
                next(r.correction for r in again.rows if r.guarantee == row.guarantee) <= found.excess + 1e-9
            )
    assert "pac" in str(found)


def test_without_a_pilot_the_plan_takes_the_sets_to_be_small():
    found = nacp.plan(k=1000, noise=0.2, n=25_000, delta=0.001)
    assert found.deviation == pytest.approx(math.sqrt(0.9 * (0.1 + 0.25)), rel=1e-3)
    dense = nacp.plan(k=100, noise=nacp.UniformNoise(0.2).matrix(100).dense(), n=25_000)
    assert dense.deviation == pytest.approx(nacp.plan(k=100, noise=0.2, n=25_000).deviation)
    assert floor(0.001, found.deviation, 25_000) == pytest.approx(0.0110, abs=1e-4)


def test_the_plan_counts_what_a_radius_and_a_confidence_cost():
    exactly, doubtful = (
        {row.guarantee.name: row for row in nacp.plan(k=K, noise=noise, n=2000, excess=0.05).rows}
        for noise in (nacp.MatrixNoise(PAIRS), nacp.MatrixNoise(PAIRS, radius=0.01))
    )
    refused = {name: doubtful.pop(name).reason for name in ("binomial", "nacp", "acnl", "crcp")}
    assert "uniform noise only" in refused["binomial"]
    assert "known exactly" in refused["acnl"]
    assert set(doubtful) == {"pac", "expected"}
    sets = np.array(list(product([False, True], repeat=K)))
    doubt = 0.01 * np.ptp(sets @ np.linalg.inv(PAIRS).T, axis=1).max()
    for name, row in doubtful.items():
        assert row.correction == pytest.approx(exactly[name].correction + doubt)
        assert row.n_needed > exactly[name].n_needed
    rows = nacp.plan(k=K, noise=nacp.UniformNoise(0.2, interval=(0.1, 0.3), confidence=0.98), delta=0.1).rows
    assert [row.guarantee.name for row in rows if row.reason is not None] == ["acnl", "crcp"]
    assert all("known exactly" in row.reason for row in rows[-2:]), "what is refused comes last"
    promises = {row.guarantee.name: row.promise for row in rows[:-2]}
    assert set(promises) == {"pac", "binomial", "nacp", "expected"}
    assert "at least 88% of calibration sets" in promises["pac"]
    assert "at least 88% in expectation" in promises["expected"]


def test_the_plan_for_binomial_has_the_cost_of_not_knowing_how_large_sets_are():
    """At n = 200 half as much again as the normal test costs, which was left out: 0.051 for 0.072."""
    probs, labels = twins.simulate("cifar10", n=40_000, random_state=3)
    own = np.sort(1 - probs[np.arange(len(labels)), labels])
    rng, excess = np.random.default_rng(0), []
    for _ in range(100):
        some = rng.integers(len(labels), size=200)
        noisy = nacp.UniformNoise(0.2).sample(labels[some], 10, rng)
        cal = nacp.calibrate(probs[some], noisy, noise=0.2, guarantee="binomial", delta=0.1)
        excess.append(np.searchsorted(own, cal.threshold, side="right") / len(own) - 0.9)
    (row,) = (r for r in nacp.plan(k=10, noise=0.2, n=200, delta=0.1).rows if r.guarantee.name == "binomial")
    # Sets of more than one label cost a little more than what is planned for one.
    assert abs(np.mean(excess) - row.correction) < 3 * np.std(excess) / math.sqrt(len(excess))
