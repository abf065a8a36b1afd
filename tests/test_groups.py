"""Coverage for each group: thresholds against the definition, promises by simulation, and what is refused."""

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.paper import twins
from nacp.tuning import tuned

ROUNDING = 1e-12


@pytest.fixture(scope="module")
def points():
    probs, truth = twins.simulate("cifar10", n=300, random_state=1)
    return probs, truth, nacp.UniformNoise(0.2).sample(truth, 10, random_state=1)


def by_definition(scores, labels, weights, group, target, rule):
    """Return the threshold and the estimate of one group of classes, from its definition."""
    own = weights[labels][:, group]  # W[y_i, l] for l in the group
    mass = own.sum()
    scores = scores[:, group]
    order = np.sort(np.unique(scores))
    covered = np.array([own[scores <= q].sum() for q in order]) / mass
    reached = covered >= target - ROUNDING
    if rule == "first":
        at = int(np.argmax(reached)) if reached.any() else None
    else:
        below = np.flatnonzero(~reached)
        at = 0 if not len(below) else int(below[-1]) + 1
        at = None if at == len(order) else at
    return (np.inf, 1.0) if at is None else (float(order[at]), float(covered[at]))


def matrices(k):
    rng = np.random.default_rng(5)
    mixed = 0.75 * np.eye(k) + 0.25 * rng.dirichlet(np.ones(k), size=k)
    return {
        "uniform": nacp.UniformNoise(0.2),
        "groups": nacp.GroupNoise([i // 2 for i in range(k)], 0.15),
        "matrix": nacp.MatrixNoise(mixed),
        "none": None,
    }


GROUPS = {"class": None, "halves": {i: "low" if i < 5 else "high" for i in range(10)}}


@pytest.mark.parametrize("rule", ["last", "first"])
@pytest.mark.parametrize("grouping", GROUPS)
@pytest.mark.parametrize("noise", ["uniform", "groups", "matrix", "none"])
@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("tuning", [{}, {"collected_pairs": 100, "block_entries": 700}])
def test_thresholds_by_class_are_those_of_the_definition(points, score, noise, grouping, rule, tuning):
    probs, truth, _ = points
    model = matrices(10)[noise]
    labels = truth if model is None else model.sample(truth, 10, random_state=2)
    weights = np.eye(10) if model is None else model.inverse(10).dense()
    groups = GROUPS[grouping]
    given = {"by": "class"} if groups is None else {"groups": groups}
    with tuned(**tuning):
        cal = nacp.calibrate(
            probs, labels, noise=model, score=score, guarantee="none", crossing=rule, small="all", **given
        )
    spec = cal.score.spec
    placed = engine.open_block(probs, spec).placed.astype(np.float64)
    for name, each in cal.groups.items():
        group = [name] if groups is None else [i for i in range(10) if groups[i] == name]
        q, estimate = by_definition(placed, labels, weights, group, 0.9, rule)
        assert each.native_threshold == q
        assert each.estimate == pytest.approx(min(estimate, 1.0), abs=1e-9)
