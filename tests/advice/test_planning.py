"""plan() tells the excess coverage of guarantees, for noisy labels, checked labels and groups."""

import math
from itertools import product

import numpy as np
import pytest

import nacp
from nacp.noise import UNSAID
from nacp.wrapping import on_one_line
from tests.cli.command_line import classified
from tests.guarantees.problems import NOISES, PAIRS, K


@pytest.mark.slow
def test_the_plan_predicts_the_excess_with_checked_labels():
    """The excess of "pac" over many calibration sets: alone nearly exactly, beside noisy ones at least."""
    m, n, alpha, delta, runs = 200, 1000, 0.1, 0.1, 60
    probs, truth, noisy = classified(30_000, k=6, noise=0.1, seed=5)
    own = np.sort(1 - probs[np.arange(len(probs)), truth])
    options = {"noise": 0.1, "alpha": alpha, "delta": delta}
    plan = nacp.plan(k=6, n=n, checked=m, **options)
    planned = {row.labels: row.excess for row in plan.checked_rows}
    rng, found = np.random.default_rng(6), {"checked": [], "checked, noisy": []}
    for run in range(runs):
        some = rng.choice(len(probs), n, replace=False)
        clean = np.arange(m), truth[some][:m]
        ways = [("checked", None), ("checked, noisy", noisy[some])]
        for which, labels in ways[: 2 if run % 5 == 0 else 1]:  # the second one takes long
            cal = nacp.calibrate(probs[some], labels, clean=clean, **options)
            covered = np.searchsorted(own, cal.threshold, side="right") / len(own)
            found[which].append(covered - (1 - alpha))
    errors = {which: 4 * np.std(excess) / math.sqrt(len(excess)) for which, excess in found.items()}
    for which, excess in found.items():
        assert np.mean(excess) >= planned[which] - errors[which]
    assert np.mean(found["checked"]) <= 1.03 * planned["checked"] + errors["checked"]
    assert planned["checked, chosen"] <= planned["checked, noisy"] < planned["checked"]


def test_as_many_labels_as_the_plan_wants_are_enough():
    for noise in (0.05, 0.3):
        rows = nacp.plan(k=10, noise=noise, n=20_000, excess=0.01).checked_rows
        for row in rows:
            again = nacp.plan(k=10, noise=noise, n=20_000, checked=row.n_needed).checked_rows
            same = [each for each in again if (each.labels, each.guarantee) == (row.labels, row.guarantee)]
            # Exact alone. Scaled, it is off by what the exact excess is beyond z sqrt(alpha (1 - alpha) / m).
            assert same[0].excess <= 0.01 + (0 if row.labels == "checked" else 1.5 / row.n_needed) + 1e-12
        assert [row.n_needed for row in rows[1:]] == sorted((row.n_needed for row in rows[1:]), reverse=True)


def test_the_plan_without_noise_is_about_checked_labels_alone():
    found = nacp.plan(k=10, checked=22, delta=0.1)
    assert found.rows == []
    (alone,) = found.checked_rows
    assert alone.excess == pytest.approx(22 / 23 - 0.9)
    assert nacp.plan(k=10, checked=21, delta=0.1).checked_rows[0].excess == 0.1
    assert "all classes" in str(nacp.plan(k=10, checked=21, delta=0.1))


@pytest.mark.parametrize(
    "noise", [UNSAID, 0.2, np.full((4, 4), 0.1) + 0.6 * np.eye(4)], ids=["none", "rate", "matrix"]
)
def test_a_plan_ends_with_how_many_labels_to_check_and_has_no_empty_cells(noise):
    """Guarantees on average need very few labels, and sets from so few vary too much to be advised."""
    found = nacp.plan(k=4, n=3000, noise=noise, excess=0.02)
    needed = {row.labels: row.n_needed for row in found.checked_rows}
    last = on_one_line(found).splitlines()[-1]
    assert last.startswith(f"Check about {needed.get('checked, noisy', needed['checked']):,} labels")
    assert "cover about 92% on average where 90% is promised" in last
    few = nacp.plan(k=4, noise=noise).advice
    assert few.startswith("Check about 300 of the 1,000 labels, for sets that cover about 92.")
    assert few.endswith("About 91% would need 2,310 checked labels (there are only 1,000).")
    assert nacp.plan(k=4, n=20, noise=noise).advice.startswith("Check about 2,310 labels (there are only 20)")
    assert min(needed.values()) > 100
    assert not [cell for table in found.tables for row in table.rows for cell in row if cell == "-"]


@pytest.mark.parametrize("noise", [nacp.UniformNoise(0.2), "matrix"])
def test_the_deviation_of_a_group_of_classes_is_that_of_its_definition(noise):
    """Shares are drawn as they are defined, with sets that hold the true label or nothing."""
    rng, k, n, alpha = np.random.default_rng(3), 6, 400_000, 0.1
    if noise == "matrix":
        noise = nacp.MatrixNoise(0.7 * np.eye(k) + 0.3 * rng.dirichlet(np.ones(k), k))
    truth, members = rng.integers(k, size=n), np.array([0, 1, 1, 2, 2, 2])
    given, inside = noise.sample(truth, k, rng), rng.random(n) < 1 - alpha
    weights = np.linalg.inv(noise.matrix(k).dense())[given]
    hits = (truth[:, None] == np.arange(k)) & inside[:, None]
    rows = nacp.plan(k=k, noise=noise, alpha=alpha, groups=dict(enumerate("abbccc"))).groups
    for g, row in enumerate(rows):
        shares = (weights * (hits - (1 - alpha)))[:, members == g].sum(axis=1)
        variance, kurtosis = shares.var(), ((shares - shares.mean()) ** 4).mean()
        error = math.sqrt((kurtosis - variance**2) / n)
        assert abs(row.deviation**2 * (members == g).mean() - variance) <= 4 * error


def test_groups_of_rows_have_the_excess_of_as_many_points_and_all_at_once_more():
    alone = nacp.plan(k=10, noise=0.2, n=200).rows
    (excess,) = (row.excess for row in alone if row.guarantee.name == "pac")
    found = nacp.plan(k=10, noise=0.2, n=1000, groups={"a": 0.2, "b": 0.8})
    assert found.groups[0].points == 200
    assert found.groups[0].excess == pytest.approx(excess)
    assert found.groups == nacp.plan(k=10, noise=0.2, n=1000, groups=list("abbbb")).groups
    both = nacp.plan(k=10, noise=0.2, n=1000, groups={"a": 0.2, "b": 0.8}, simultaneous=True)
    halved = nacp.plan(k=10, noise=0.2, n=1000, delta=0.025, groups={"a": 0.2, "b": 0.8})
    assert both.groups == halved.groups
    assert "needed at least" in str(both)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 1}, "^k must"),
        ({"checked": 0}, "^checked must"),
        ({"checked": 1001, "noise": UNSAID}, "^checked must"),
        ({"excess": 0.0}, "^excess must"),
        ({"groups": {"a": 0.2, "b": 0.3}}, "sum to 1"),
        ({"groups": {0: "a"}}, "no group for class"),
        ({"groups": []}, "at least one group"),
        ({"groups": 5}, "must be a mapping"),
        ({"simultaneous": True}, "no effect"),
        ({"by": "rows"}, "class"),
        ({"groups": {"north": 0.5, "south": 0.5, "east": 0}}, "shares of points, which must be positive"),
    ],
)
def test_bad_input_is_refused_with_a_reason(options, said):
    with pytest.raises(nacp.InputError, match=said):
        nacp.plan(**{"k": 10, "noise": 0.2} | options)


# Guarantees under a noise model


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_plan_predicts_the_excess_of_a_calibration(noise):
    n = 4000
    rng = np.random.default_rng(0)
    true = rng.integers(K, size=n)
    probs = np.exp(2 * (rng.standard_normal((n, K)) + 9 * np.eye(K)[true] * rng.random((n, 1))))
    probs /= probs.sum(axis=1, keepdims=True)
    labels = noise.sample(true, K, rng)
    found = nacp.plan(k=K, noise=noise, n=n, delta=0.01)
    assert [row.excess for row in found.rows] == sorted(row.excess for row in found.rows)
    measured = nacp.calibrate(probs, labels, noise=noise, guarantee="pac", delta=0.01).excess
    planned = next(row.excess for row in found.rows if row.guarantee.name == "pac")
    assert planned == pytest.approx(measured, rel=0.4)
    for row in found.rows:
        if row.n_needed is not None:
            again = nacp.plan(k=K, noise=noise, n=row.n_needed, delta=0.01)
            assert next(r.excess for r in again.rows if r.guarantee == row.guarantee) <= found.excess + 1e-9
    assert "pac" in str(found)


def test_the_plan_counts_a_radius_and_a_confidence():
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
        assert row.excess == pytest.approx(exactly[name].excess + doubt)
        assert row.n_needed > exactly[name].n_needed
    rows = nacp.plan(k=K, noise=nacp.UniformNoise(0.2, interval=(0.1, 0.3), confidence=0.98), delta=0.1).rows
    assert [row.guarantee.name for row in rows if row.reason is not None] == ["acnl", "crcp"]
    assert all("known exactly" in row.reason for row in rows[-2:]), "what is refused comes last"
    promises = {row.guarantee.name: row.promise for row in rows[:-2]}
    assert set(promises) == {"pac", "binomial", "nacp", "expected"}
    assert "at least 88% of calibration sets" in promises["pac"]
    assert "at least 88% in expectation" in promises["expected"]
