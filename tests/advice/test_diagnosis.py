"""diagnose() rejects wrong noise models with power, and right ones no more often than its level."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import nacp
from nacp.coverage.agreement import unrelated
from nacp.coverage.tally import Sample
from nacp.paper import twins
from nacp.points import open_points
from nacp.wrapping import on_one_line

wrong_on_purpose = pytest.mark.filterwarnings("ignore::nacp.NoiseModelWarning")
PAIRS = nacp.GroupNoise.other(np.arange(100) // 2, 0.2)


def asymmetric(k, seed=0):
    """Row error rates from U(.05, .35), spread by Dirichlet(.3)."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.05, 0.35, k)[:, None]
    return (1 - rates) * np.eye(k) + rates * rng.dirichlet(np.full(k, 0.3), k)


def transposed(matrix):
    return nacp.MatrixNoise(matrix.T / matrix.T.sum(axis=1, keepdims=True))


@pytest.fixture(scope="module")
def population():
    return twins.simulate("cifar100", n=20_000, random_state=5)


def diagnosed(population, true, claimed, n, rng):
    probs, labels = population
    some = np.sort(rng.choice(len(labels), n, replace=False))
    k = probs.shape[1]
    noisy = true.sample(labels[some], k, rng)
    cal = nacp.calibrate(probs[some], noisy, noise=claimed, guarantee="expected")
    return cal.diagnose(probs[some], noisy)


@pytest.mark.parametrize(
    ("true", "claimed"),
    [(PAIRS, nacp.UniformNoise(0.4)), (nacp.MatrixNoise(asymmetric(100)), transposed(asymmetric(100)))],
    ids=["uniform .4 claimed on pair flips .2", "transposed"],
)
@wrong_on_purpose
def test_a_wrong_model_is_rejected_and_the_sentence_names_the_worst_region(population, true, claimed):
    """Power at least .9 at n = 5,000 and k = 100: 25 of 25 would have probability .07 at just .9."""
    rng = np.random.default_rng(0)
    found = [diagnosed(population, true, claimed, 5000, rng) for _ in range(25)]
    assert all(each.rejected for each in found)
    rejected = [check for check in found[0].checks if check.rejected]
    worst = min(rejected, key=lambda check: check.share / check.error)
    said = f"labels {worst.region} is estimated at {worst.share:.3f} ± {worst.error:.3f}"
    assert said in on_one_line(found[0])


@pytest.mark.parametrize(
    ("noise", "score"),
    [
        (nacp.UniformNoise(0.3), "hps"),
        (nacp.MatrixNoise(asymmetric(4)), "hps"),
        (nacp.MatrixNoise(asymmetric(4)), "aps"),
        (nacp.GroupNoise([0, 0, 1, 1], 0.4), "aps"),
    ],
    ids=["uniform", "matrix", "matrix-aps", "groups-aps"],
)
def test_a_right_model_is_rejected_no_more_often_than_the_level_allows(noise, score):
    """The worst case: a classifier so good that most shares are 0 in truth."""
    rng = np.random.default_rng(1)
    runs, level, rejected = 80, 0.2, 0
    for _ in range(runs):
        true = rng.integers(4, size=300)
        probs = np.eye(4)[true] + 0.02 * rng.random((300, 4))
        probs /= probs.sum(axis=1, keepdims=True)
        noisy = noise.sample(true, 4, rng)
        cal = nacp.calibrate(probs, noisy, noise=noise, score=score, guarantee="none")
        rejected += nacp.diagnose(cal, probs, noisy, level=level).rejected
    assert stats.binom.sf(rejected - 1, runs, level) > 1e-4


@wrong_on_purpose
@pytest.mark.parametrize(
    ("claimed", "rejected"),
    [
        (nacp.UniformNoise(0.3), True),
        (nacp.UniformNoise(0.1), False),
        (nacp.UniformNoise(0.3, interval=(0.18, 0.32), confidence=0.95), False),
        (nacp.UniformNoise(0.3, interval=(0.29, 0.32), confidence=0.95), True),
    ],
    ids=["overstated", "understated", "interval with the rate", "interval above it"],
)
def test_an_overstated_rate_is_detected_and_an_understated_one_is_not(population, claimed, rejected):
    """The low end of an interval is tested."""
    rng = np.random.default_rng(3)
    assert diagnosed(population, nacp.UniformNoise(0.2), claimed, 5000, rng).rejected is rejected


def test_the_compatible_radius_is_no_larger_than_the_true_distance():
    """A lower bound at level 5%, but for its step; and not an empty one."""
    rng, rate = np.random.default_rng(6), 0.3
    claimed = nacp.UniformNoise.other(rate, 4)
    distance = rate * 2 / 3  # in total variation, between swaps and any other label alike
    found = []
    for _ in range(20):
        true = rng.integers(4, size=2000)
        probs = 0.9 * np.eye(4)[true] + 0.025
        noisy = nacp.GroupNoise.other([0, 0, 1, 1], rate).sample(true, 4, rng)
        cal = nacp.calibrate(probs, noisy, noise=claimed, guarantee="none")
        found.append(nacp.compatible_radius(cal, probs, noisy))
    above = sum(radius > distance + 0.005 for radius in found)
    assert stats.binom.sf(above - 1, 20, 0.05) > 1e-4
    assert np.mean(found) > distance / 4


def test_labels_taken_as_they_are_are_never_rejected(population):
    probs, labels = (part[:1000] for part in population)
    found = nacp.calibrate(probs, labels, noise=None).diagnose(probs, labels)
    assert not found.rejected
    assert "nothing contradicts it" in str(found)
    one = probs[:1], labels[:1]
    with pytest.raises(ValueError, match="probs must hold two points or more for a diagnosis; found 1"):
        nacp.calibrate(*one, noise=None, alpha=0.6).diagnose(*one)


@wrong_on_purpose
@pytest.mark.parametrize("score", ["hps", "precomputed"])
def test_labels_in_another_order_than_the_rows_are_noticed(population, score):
    probs, labels = (part[:2000] for part in population)
    noisy = nacp.UniformNoise(0.2).sample(labels, 100, 0)
    rows = probs if score == "hps" else 1 - probs
    cal = nacp.calibrate(rows, noisy[::-1], noise=0.2, score=score, guarantee="none")
    told = nacp.diagnose(cal, rows, noisy[::-1])
    assert told.unrelated
    assert "nothing contradicts" not in on_one_line(told)
    assert "in one order" in on_one_line(told)
    for some in (2000, 60):
        assert not nacp.diagnose(cal, rows[:some], noisy[:some]).unrelated


def test_labels_in_a_random_order_are_taken_for_related_as_seldom_as_three_deviations_say():
    rng, probs = np.random.default_rng(8), np.random.default_rng(9).dirichlet(np.full(4, 0.3), 120)
    labels = probs.argmax(axis=1)
    orders = (rng.permutation(labels) for _ in range(3000))
    found = [unrelated(Sample.of(*open_points(probs, each)[:2], nacp.HPS())) for each in orders]
    assert 0.995 < np.mean(found) < 1  # the normal distribution says 0.9987


# Checked labels


def checked_points(n, rng, noise=None, k=4):
    """Points with true labels as probable as they look, and noisy ones: by a model, or where it is hard."""
    probs = rng.dirichlet(np.full(k, 0.5), n)
    truth = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    if noise is not None:
        return probs, truth, noise.sample(truth, k, rng)
    second = np.argsort(-probs, axis=1)[:, 1]
    wrong = rng.random(n) < np.where(probs.max(axis=1) < 0.75, 0.5, 0.03)
    return probs, truth, np.where(wrong, second, truth)


@pytest.mark.parametrize(
    ("noise", "n", "m"),
    [(nacp.UniformNoise(0.3), 120, 40), (nacp.MatrixNoise(asymmetric(4)), 100, 100)],
    ids=["uniform, some checked", "matrix, all checked"],
)
def test_a_right_model_is_refuted_by_checked_labels_no_more_often_than_the_level_allows(noise, n, m):
    """The threshold comes from the same points, and the labels compared are checked ones."""
    rng = np.random.default_rng(21)
    runs, level, refuted = 120, 0.2, 0
    for _ in range(runs):
        probs, truth, noisy = checked_points(n, rng, noise)
        rows = rng.choice(n, m, replace=False)
        cal = nacp.calibrate(probs, noisy, noise=noise, guarantee="none", alpha=0.3)
        claim = nacp.diagnose(cal, probs, noisy, clean=(rows, truth[rows]), level=level).claim
        refuted += claim.short or claim.generous
    assert stats.binom.sf(refuted - 1, runs, level / 2) > 1e-4


@pytest.mark.slow
@wrong_on_purpose
def test_checked_labels_see_noise_that_depends_on_the_input_and_noise_that_is_understated():
    rng = np.random.default_rng(22)
    probs, truth, noisy = checked_points(4000, rng)
    clean = np.where(rng.random(4000) < 0.2, truth, -1)
    cal = nacp.calibrate(probs, noisy, noise=0.5, guarantee="none")
    found = nacp.diagnose(cal, probs, noisy, clean=clean)
    assert found.claim.short
    assert found.rejected
    assert "claims too much" in on_one_line(found)
    uniform = nacp.UniformNoise(0.4).sample(truth, 4, rng)
    understated = nacp.calibrate(probs, uniform, noise=0.1, guarantee="none")
    found = nacp.diagnose(understated, probs, uniform, clean=clean)
    assert not any(check.rejected for check in found.checks)
    assert found.claim.generous
    assert found.rejected
    assert str(found).startswith("The noise model is rejected at level 5%, by checked labels")
    doubtful = nacp.UniformNoise(0.1, interval=(0.05, 0.5))
    found = nacp.diagnose(nacp.calibrate(probs, uniform, noise=doubtful), probs, uniform, clean=clean)
    assert not found.rejected
    assert "claims at least" in str(found)


def test_a_radius_that_holds_the_noise_saves_a_model_from_checked_labels():
    """Noise that depends on the input, within a radius of the model, and against it."""
    rng = np.random.default_rng(26)
    probs, truth, _ = checked_points(6000, rng)
    order = np.argsort(-probs, axis=1)
    # A label that is wrong anyhow: the likeliest one is named where the true one is unlikely.
    unlikely = probs[np.arange(6000), truth] < 0.3
    noisy = np.where(unlikely & (rng.random(6000) < 0.3), order[:, 0], truth)
    rows = rng.choice(6000, 2000, replace=False)
    found = []
    for radius in (0.0, 0.3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
            cal = nacp.calibrate(probs, noisy, noise=nacp.MatrixNoise(0.9 * np.eye(4) + 0.025, radius))
        found.append(nacp.diagnose(cal, probs, noisy, clean=(rows, truth[rows])).claim)
    assert found[0].short
    assert not found[1].short
    assert not found[1].generous


def test_the_sentence_holds_the_estimates_at_the_threshold():
    rng = np.random.default_rng(23)
    probs, truth, noisy = checked_points(500, rng, nacp.UniformNoise(0.2))
    cal = nacp.calibrate(probs, noisy, noise=0.2)
    sets = np.asarray(cal.predict_set(probs))
    shares = (sets[np.arange(500), noisy] - 0.2 * sets.mean(axis=1)) / 0.8
    hits = sets[np.arange(500), truth]
    claim = nacp.diagnose(cal, probs, noisy, clean=truth).claim
    assert claim.claim == pytest.approx(shares.mean(), abs=1e-12)
    assert claim.claim_error == pytest.approx(shares.std() / math.sqrt(500), abs=1e-12)
    assert claim.found == pytest.approx(hits.mean(), abs=1e-12)  # all were checked, so nothing is guessed
    assert claim.error == pytest.approx(hits.std() / math.sqrt(500), abs=1e-12)
    said = f"claims {100 * shares.mean():.1f}%, the 500 checked labels say {100 * hits.mean():.1f}% ± "
    assert said in on_one_line(claim)


def test_few_points_and_sets_of_all_classes_are_diagnosed():
    rng = np.random.default_rng(24)
    probs, truth, noisy = checked_points(30, rng, nacp.UniformNoise(0.2))
    with pytest.warns(nacp.NoValidThresholdWarning):
        cal = nacp.calibrate(probs, noisy, noise=0.2)
    for some in (30, 4, 2):
        for clean in (truth[:some], ([1], truth[1:2])):
            found = nacp.diagnose(cal, probs[:some], noisy[:some], clean=clean)
            assert not found.rejected
            assert 0 <= found.claim.found <= 1


def test_a_calibration_from_checked_labels_has_no_model_to_test():
    rng = np.random.default_rng(25)
    probs, truth, noisy = checked_points(300, rng)
    cal = nacp.calibrate(probs, noisy, clean=truth)
    for call in (nacp.diagnose, nacp.compatible_radius):
        with pytest.raises(nacp.InputError, match="made with noise= and without clean="):
            call(cal, probs, noisy)


@wrong_on_purpose
def test_labels_that_a_plan_chose_refute_a_claim_and_need_the_plan():
    rng = np.random.default_rng(28)
    probs, truth, noisy = checked_points(3000, rng)
    plan = nacp.choose_audit(probs, noisy, budget=400, alpha=0.2)
    chosen = {"clean": (plan.rows, truth[plan.rows]), "audit": plan}
    cal = nacp.calibrate(probs, noisy, noise=0.1, alpha=0.2, guarantee="none")
    found = nacp.diagnose(cal, probs, noisy, **chosen).claim
    rests = nacp.calibrate(probs, noisy, alpha=0.2, guarantee="none", **chosen)
    by_plan = nacp.diagnose(replace(cal, native_threshold=rests.native_threshold), probs, noisy, **chosen)
    assert by_plan.claim.found == pytest.approx(rests.estimate)
    covered = cal.predict_set(probs).contains(truth).mean()
    assert abs(found.found - covered) < 4 * found.error
    with pytest.raises(nacp.InputError, match="audit needs clean"):
        nacp.diagnose(cal, probs, noisy, audit=plan)
    other = nacp.calibrate(probs, noisy, noise=0.1, score="aps", guarantee="none")
    with pytest.raises(nacp.InputError, match=r"score must be HPS\(\)"):
        nacp.diagnose(other, probs, noisy, **chosen)


@wrong_on_purpose
def test_each_group_of_rows_is_tested_by_itself_at_its_part_of_the_level(population):
    """One of the groups has other noise than was stated."""
    probs, labels = (each[:9000] for each in population)
    where = np.array(["right", "wrong", "right"] * 3000)
    rng = np.random.default_rng(0)
    noisy = np.where(
        where == "right", nacp.UniformNoise(0.4).sample(labels, 100, rng), PAIRS.sample(labels, 100, rng)
    )
    cal = nacp.calibrate(probs, noisy, noise=0.4, guarantee="none", groups=where)
    found = cal.diagnose(probs, noisy, groups=where)
    assert found.rejected
    assert found.rejected_groups == ("wrong",)
    for name, alone in found.diagnoses.items():
        own = where == name
        plain = nacp.calibrate(probs[own], noisy[own], noise=0.4, guarantee="none")
        assert alone == plain.diagnose(probs[own], noisy[own], level=0.025)
    assert "rejected in 1 group, at level 5% for 2 groups together" in on_one_line(found)
    assert "not rejected" in found._repr_html_()
    assert repr(found) == str(found)
    with pytest.raises(nacp.errors.InputError, match="clean cannot be used"):
        nacp.diagnose(cal, probs, noisy, groups=where, clean=labels)


def test_groups_of_classes_are_tested_together_and_one_row_not_at_all(population):
    probs, labels = (each[:2000] for each in population)
    noisy = nacp.UniformNoise(0.2).sample(labels, 100, 0)
    kinds = {i: i % 2 for i in range(100)}
    cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="none", groups=kinds)
    plain = nacp.calibrate(probs, noisy, noise=0.2, guarantee="none")
    found = cal.diagnose(probs, noisy)
    assert found.checks == plain.diagnose(probs, noisy).checks
    assert nacp.compatible_radius(cal, probs, noisy) == nacp.compatible_radius(plain, probs, noisy)
    with pytest.raises(nacp.errors.InputError, match="groups has no effect"):
        cal.diagnose(probs, noisy, groups=["a"] * 2000)
    lonely = np.where(np.arange(2000) == 7, "one", "others")
    rows = nacp.calibrate(probs, noisy, noise=0.2, groups=lonely, small="merge", guarantee="none")
    told = rows.diagnose(probs, noisy, groups=lonely)
    assert list(told.diagnoses) == ["others"]
    assert "too few rows" in str(told)
    noisy[lonely == "others"] = noisy[lonely == "others"][::-1]
    told = rows.diagnose(probs, noisy, groups=lonely)
    assert "in these groups the labels fit the rows no better than in a random order: others" in on_one_line(
        told
    )
