"""Estimators of noise models: each against its definition, intervals by simulation, the commands."""

import json
import math
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import nacp
from nacp.errors import InputError
from nacp.estimation.annotators import pair_distribution
from nacp.estimation.audit import row_radii
from nacp.files import sealed
from nacp.noise import as_noise
from nacp.wrapping import on_one_line
from tests.cli import command_line

GROUPS = ["a", "a", "a", "b", "b", "c"]
done = partial(command_line.done, "noise")


def binomial_test(count, runs, share):
    """How likely as few as `count` of `runs` are, if each has probability `share`."""
    return stats.binom.cdf(count, runs, share)


def calibrated(n, k, rng, concentration=0.1):
    """A classifier that is calibrated by construction: labels are drawn from its probabilities."""
    probs = rng.dirichlet(np.full(k, concentration), size=n)
    return probs, np.minimum((probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), k - 1)


# Audit


def test_uniform_noise_counts_replacements_by_the_true_label_too():
    """A share r of disagreements means a rate of r k/(k-1), and so do the ends of the interval."""
    clean = np.arange(1000) % 5
    noisy = clean.copy()
    noisy[:80] = (noisy[:80] + 1 + np.arange(80) % 4) % 5
    found = nacp.noise_from_audit(noisy, clean, k=5, model="uniform")
    ends = stats.binomtest(80, 1000).proportion_ci(0.95, method="exact")
    assert found.rate == pytest.approx(0.08 * 5 / 4)
    assert found.wrong == 0.08
    np.testing.assert_allclose(found.interval, np.array(ends) * 5 / 4, rtol=0, atol=1e-8)
    assert found.noise == nacp.UniformNoise(found.rate, found.interval, 0.95)


def test_a_group_rate_is_a_sum_over_groups_of_different_sizes():
    """Oracle: each item is wrong with probability rate (1 - 1/m), m the size of its group."""
    clean = np.array([0, 1, 2, 3, 4, 5, 0, 3, 3, 0, 1, 2, 4])
    noisy = np.array([1, 1, 2, 3, 4, 5, 0, 3, 3, 0, 1, 2, 4])
    size = {0: 3, 1: 3, 2: 3, 3: 2, 4: 2, 5: 1}
    found = nacp.noise_from_audit(noisy, clean, k=6, model="groups", groups=GROUPS)
    wrong = [1 - 1 / size[c] for c in clean]
    assert found.rate == pytest.approx(1 / sum(wrong))

    def tail(rate, counts):
        total = 0.0
        for outcome in product((0, 1), repeat=len(clean)):
            if sum(outcome) in counts:
                total += math.prod(
                    rate * w if o else 1 - rate * w for o, w in zip(outcome, wrong, strict=True)
                )
        return total

    low, high = found.interval
    assert tail(low, range(1, 14)) == pytest.approx(0.025, abs=1e-7)
    assert tail(high, range(2)) == pytest.approx(0.025, abs=1e-7)


def test_the_radius_holds_for_all_rows_at_once_and_is_the_smaller_of_two_bounds():
    rng = np.random.default_rng(1)
    k, runs, fails = 5, 400, 0
    for _ in range(runs):
        matrix = rng.dirichlet(np.full(k, 0.3), size=k)
        counts = np.array(
            [rng.multinomial(m, row) for m, row in zip([5, 20, 80, 300, 2000], matrix, strict=True)]
        )
        away = np.abs(counts / counts.sum(axis=1, keepdims=True) - matrix).sum(axis=1) / 2
        fails += bool(np.any(away > row_radii(counts.astype(float), 0.2 / k)))
    assert binomial_test(runs - fails, runs, 0.8) > 1e-4
    few = row_radii(np.array([[50.0] + [0.0] * 99]), 0.01)[0]
    lowest = stats.beta.ppf(0.01 / 200, 50, 1)
    assert few == pytest.approx(1 - lowest)
    many = row_radii(np.full((1, 10), 500.0), 0.01)[0]
    assert many == pytest.approx(math.sqrt(math.log((2**10 - 2) / 0.005) / (2 * 5000)))


def test_a_class_never_audited_leaves_a_radius_of_one():
    found = nacp.noise_from_audit([0, 1, 1, 0] * 50, [0, 1, 1, 1] * 50, k=3, model="matrix")
    assert found.noise.radius == pytest.approx(1)
    assert "never audited" in found.why


def test_auto_takes_groups_that_are_not_refuted_and_else_a_matrix():
    rng = np.random.default_rng(3)
    clean = rng.integers(6, size=3000)
    swaps = nacp.GroupNoise.other([0, 0, 1, 1, 2, 2], 0.2)
    cases = [
        (nacp.UniformNoise(0.2), None, nacp.MatrixNoise),
        (nacp.UniformNoise(0.2), GROUPS, nacp.MatrixNoise),
        (nacp.GroupNoise(GROUPS, 0.2), GROUPS, nacp.GroupNoise),
        (swaps, None, nacp.MatrixNoise),
        (nacp.MatrixNoise(0.8 * np.eye(6) + 0.2 * np.eye(6)[[1, 2, 0, 4, 3, 5]]), GROUPS, nacp.MatrixNoise),
    ]
    for noise, groups, kind in cases:
        found = nacp.noise_from_audit(noise.sample(clean, 6, rng), clean, k=6, groups=groups)
        assert type(found.noise) is kind, found.why
        assert ("refuted" in found.why) == (kind is nacp.MatrixNoise and groups is not None)


def test_a_small_audit_of_swapped_pairs_is_not_taken_for_uniform_noise():
    """It could not refute it: with 100 labels of 100 classes every promise was broken."""
    rng = np.random.default_rng(6)
    clean = rng.integers(100, size=100)
    noisy = np.where(rng.random(100) < 0.2, clean ^ 1, clean)
    with pytest.raises(
        nacp.InputError, match=r"too few labels for a matrix of 100 classes.*calibrate\(clean=\.\.\.\)"
    ):
        nacp.noise_from_audit(noisy, clean, k=100)


@pytest.mark.parametrize("groups", [[0] * 14, [0, 0, 1, 1, *[2] * 10]], ids=["one size", "two sizes"])
def test_the_test_by_which_auto_chooses_has_its_level(groups):
    """A right group model is refuted in at most 1% of audits: exactly, for any n and k."""
    rng, noise, runs, refuted = np.random.default_rng(4), nacp.GroupNoise(groups, 0.4), 60, 0
    for run in range(runs):
        clean = np.minimum(rng.geometric(0.2, size=120) - 1, 13)
        noisy = noise.sample(clean, 14, rng)
        found = nacp.noise_from_audit(noisy, clean, k=14, groups=groups, confidence=0.5, random_state=run)
        refuted += "is refuted (" in found.why
    assert stats.binom.sf(refuted - 1, runs, 0.01) > 1e-4


# Annotators


@pytest.mark.parametrize(("m", "k"), [(2, 3), (3, 2), (3, 5), (4, 3)])
@pytest.mark.parametrize("kept", [0.0, 0.35, 1.0])
def test_the_distribution_of_agreeing_pairs_is_that_of_all_outcomes(m, k, kept):
    expected = np.zeros(math.comb(m, 2) + 1)
    chance = [kept + (1 - kept) / k] + [(1 - kept) / k] * (k - 1)
    for labels in product(range(k), repeat=m):
        pairs = sum(a == b for a, b in combinations(labels, 2))
        expected[pairs] += math.prod(chance[label] for label in labels)
    np.testing.assert_allclose(pair_distribution(4, k)(kept, m), expected, rtol=0, atol=1e-12)


def test_two_annotators_have_clopper_and_pearsons_interval():
    labels = np.zeros((500, 2), dtype=int)
    labels[:200, 1] = 1 + np.arange(200) % 3
    found = nacp.noise_from_annotators(labels, k=4)
    ends = np.array(stats.binomtest(300, 500).proportion_ci(0.95, method="exact"))
    expected = 1 - np.sqrt((4 * np.append(ends, 0.6) - 1) / 3)
    np.testing.assert_allclose((*found.interval[::-1], found.rate), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("annotators", [2, 3, 5])
def test_the_interval_of_annotators_covers_and_more_of_them_sharpen_it(annotators):
    k, n, runs, rate = 10, 150, 60, 0.25
    rng = np.random.default_rng(annotators)
    inside, width = 0, []
    for _ in range(runs):
        true = rng.integers(3, size=n)  # of ten classes three occur: the interval does not care
        labels = np.stack([nacp.UniformNoise(rate).sample(true, k, rng) for _ in range(annotators)], axis=1)
        labels[rng.random(labels.shape) < 0.2] = -1
        low, high = nacp.noise_from_annotators(labels, k=k).interval
        inside += low <= rate <= high
        width.append(high - low)
    assert binomial_test(inside, runs, 0.95) > 1e-4
    if annotators > 2:
        two = nacp.noise_from_annotators(labels[:, :2], k=k).interval
        assert np.mean(width) < two[1] - two[0]


# The classifier alone


def test_the_estimate_is_the_best_on_a_grid_of_rates_and_temperatures():
    rng = np.random.default_rng(7)
    probs, labels = calibrated(3000, 5, rng, 0.3)
    sharp = probs**1.6 / (probs**1.6).sum(axis=1, keepdims=True)
    noisy = nacp.UniformNoise(0.25).sample(labels, 5, rng)
    found = nacp.noise_from_model(sharp, noisy)
    profile = {}
    for rate in np.linspace(0.1, 0.4, 61):
        values = []
        for log_beta in np.linspace(-1, 0, 51):
            hot = sharp ** math.exp(log_beta)
            own = (hot / hot.sum(axis=1, keepdims=True))[np.arange(3000), noisy]
            values.append(np.log((1 - rate) * own + rate / 5).sum())
        profile[rate] = max(values)
    best = max(profile.values())
    rates = [rate for rate, value in profile.items() if value >= best - stats.chi2.ppf(0.95, 1) / 2]
    assert abs(found.rate - max(profile, key=profile.get)) <= 0.006
    np.testing.assert_allclose(found.interval, [min(rates), max(rates)], rtol=0, atol=0.006)


def test_the_likelihood_interval_covers_on_a_classifier_calibrated_up_to_a_temperature():
    rng = np.random.default_rng(8)
    runs, inside = 50, 0
    for _ in range(runs):
        probs, labels = calibrated(600, 10, rng)
        sharp = probs**1.5 / (probs**1.5).sum(axis=1, keepdims=True)
        low, high = nacp.noise_from_model(sharp, nacp.UniformNoise(0.2).sample(labels, 10, rng)).interval
        inside += low <= 0.2 <= high
    assert binomial_test(inside, runs, 0.95) > 1e-4


def test_a_flat_likelihood_and_unrelated_labels_are_refused():
    rng = np.random.default_rng(9)
    flat = 0.1 + 1e-3 * rng.random((500, 10))
    flat /= flat.sum(axis=1, keepdims=True)
    with pytest.raises(ValueError, match="flat"):
        nacp.noise_from_model(flat, rng.integers(10, size=500))
    probs, labels = calibrated(3000, 10, rng)
    with pytest.raises(ValueError, match="same order"):
        nacp.noise_from_model(probs, rng.permutation(labels))


def test_confident_learning_gives_a_matrix():
    pytest.importorskip("cleanlab")
    rng = np.random.default_rng(11)
    probs, labels = calibrated(20_000, 4, rng, 0.05)
    swap = nacp.GroupNoise.other([0, 0, 1, 1], 0.2)
    found = nacp.noise_from_model(probs, swap.sample(labels, 4, rng), model="matrix")
    # Confident learning is biased; that 0 and 1, and 2 and 3, are swapped it must see.
    assert np.abs(found.noise.P - swap.matrix(4).dense()).max() < 0.05
    assert found.interval is None


# Privacy, the result, and what is refused


def test_privacy_is_known_exactly():
    found = nacp.noise_from_privacy(3.0, k=20)
    kept = math.exp(3) / (math.exp(3) + 19)
    assert found.wrong == pytest.approx(1 - kept)
    assert found.interval == (found.rate, found.rate)
    assert found.noise.matrix(20).diagonal[0] == pytest.approx(kept)


def named_estimates():
    """Estimates for the classes ant, bee, cat, which differ in how often they are mislabelled."""
    names, rng = ["ant", "bee", "cat"], np.random.default_rng(1)
    clean = np.arange(3000) % 3
    P = np.array([[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.15, 0.15, 0.7]])
    noisy = [np.take(names, nacp.MatrixNoise(P).sample(clean, 3, rng)) for _ in range(2)]
    audit = {"noisy": noisy[0], "clean": np.take(names, clean), "classes": names}
    votes, groups = np.stack(noisy, axis=1), {"groups": ["x", "x", "y"], "rate": 0.2}
    return [
        nacp.noise_from_audit(**audit),
        nacp.noise_from_audit(**audit, model="uniform"),
        nacp.noise_from_annotators(votes, classes=names, model="annotators"),
        nacp.noise_from_annotators(votes, classes=names, model="matrix"),
        replace(nacp.noise_from_audit(**audit), noise=nacp.GroupNoise(**groups)),
    ]


@pytest.mark.parametrize(
    "found", named_estimates(), ids=["audit", "uniform", "annotators", "matrix", "groups"]
)
def test_a_noise_file_is_matched_by_the_names_of_its_classes(found, tmp_path):
    """The matrix of a file was taken as it was, whatever the order of the classes."""
    found.save(tmp_path / "noise.json")
    saved, found = found, nacp.estimation.load(tmp_path / "noise.json")
    assert (str(found), found.noise) == (str(saved), saved.noise)
    assert as_noise(found) is found.noise
    assert found.assumption in on_one_line(found)
    assert found.classes == ("ant", "bee", "cat")
    turned = found.model_for(3, ["cat", "ant", "bee"])
    order = [2, 0, 1]
    np.testing.assert_array_equal(turned.matrix(3).dense(), found.noise.matrix(3).dense()[order][:, order])
    assert (turned.doubt.radius, turned.doubt.confidence) == (
        found.noise.doubt.radius,
        found.noise.doubt.confidence,
    )

    clean, names = np.arange(3000) % 3, np.array(["ant", "bee", "cat"])
    noisy, given = found.noise.sample(clean, 3, random_state=0), {"noise": found, "alpha": 0.4}
    probs = 0.25 * np.eye(3)[clean] + 0.25
    one = nacp.calibrate(probs, names[noisy], classes=names, **given)
    same = nacp.calibrate(probs[:, order], names[noisy], classes=names[order], **given)
    assert same.threshold == one.threshold
    assert same.estimate == pytest.approx(one.estimate, abs=1e-9)
    assert nacp.calibrate(probs, noisy, **given).threshold == one.threshold
    with pytest.raises(InputError, match=r"none named .cow.; found 1 of its names .* such as 'cat'"):
        nacp.calibrate(probs, np.array(["ant", "bee", "cow"])[noisy], classes=["ant", "bee", "cow"], **given)


def test_an_audit_of_which_the_matrix_says_little_points_to_the_checked_labels():
    clean = np.arange(300) % 20
    noisy = nacp.UniformNoise(0.2).sample(clean, 20, 0)
    found = nacp.noise_from_audit(noisy, clean, k=20)
    assert "returns sets of nearly all labels. Use the checked labels themselves" in on_one_line(found)
    probs = 0.9 * np.eye(20)[clean] + 0.1 / 20
    with pytest.warns(nacp.NoValidThresholdWarning):
        assert nacp.calibrate(probs, noisy, noise=found).threshold == np.inf
    many = np.arange(200_000) % 4
    found = nacp.noise_from_audit(nacp.UniformNoise(0.1).sample(many, 4, 0), many, k=4)
    assert "nearly all labels" not in on_one_line(found)


def test_what_a_few_labels_imply_is_bounded():
    """One label 20000 in a table of 30 x 2 took 9 GB and 24 s."""
    labels = np.random.default_rng(0).integers(0, 3, size=(30, 2))
    labels[3, 1] = 20_000
    with pytest.raises(InputError, match="k is not given, and the largest of 60 labels is 20,000; pass k="):
        nacp.noise_from_annotators(labels)
    for estimate in (nacp.noise_from_annotators, nacp.estimation.accuracy_by_annotator):
        more = {"model": "matrix"} if estimate is nacp.noise_from_annotators else {}
        with pytest.raises(InputError, match="too large for a k x k matrix of each of 2 annotators"):
            estimate(labels, k=20_001, **more)


def test_a_group_model_with_an_interval_needs_both_ends_to_pass():
    """F^c = (F^n - rate F^g)/(1 - rate) moves one way with the rate, so the larger threshold is taken."""
    rng = np.random.default_rng(1)
    probs, clean = calibrated(4000, 6, rng)
    noise = nacp.GroupNoise(GROUPS, 0.2, interval=(0.1, 0.3), confidence=0.97)
    noisy = nacp.GroupNoise(GROUPS, 0.2).sample(clean, 6, rng)
    cal = nacp.calibrate(probs, noisy, noise=noise)
    ends = [
        nacp.calibrate(probs, noisy, noise=nacp.GroupNoise(GROUPS, rate)).threshold for rate in (0.1, 0.3)
    ]
    assert cal.threshold == max(ends)
    assert "92%" in cal.promise


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: nacp.noise_from_audit([0, 1], [0, 1, 1]), "noisy must have one label for each of the 3"),
        (lambda: nacp.noise_from_audit([], [], k=3), "clean is empty"),
        (lambda: nacp.noise_from_audit(["a"], ["a"]), "pass k= or classes="),
        (lambda: nacp.noise_from_audit([0, 5], [0, 1], k=3), "noisy must lie from 0 to 2"),
        (
            lambda: nacp.noise_from_audit([0, 1], [0, 1], model="groups"),
            "the group of each of the 2 classes; found 0",
        ),
        (lambda: nacp.noise_from_audit([0, 1], [0, 1], k=2, groups=[1]), "each of the 2 classes; found 1"),
        (lambda: nacp.noise_from_audit([0, 2], [0, 1], k=3, model="groups", groups="aab"), "1 of 2 labels"),
        (lambda: nacp.noise_from_audit([0, 1], [0, 1], k=1), "k must be a whole number of at least 2"),
        (lambda: nacp.noise_from_audit([0, 1], [0, 1], k=3, classes=["a", "b"]), "classes holds 2 names"),
        (lambda: nacp.noise_from_annotators([[0], [1]]), "with two or more"),
        (lambda: nacp.noise_from_annotators([[0, 1], [1, 0]]), "nothing can be said"),
        (lambda: nacp.noise_from_annotators([[0, np.inf]]), "whole numbers"),
        (lambda: nacp.noise_from_audit([0, np.inf], [0, 1]), "noisy must be whole numbers"),
        (lambda: nacp.noise_from_audit([0, 1], [0, None]), "clean has no label in row 1"),
        (lambda: nacp.noise_from_annotators([[0, 1], [1]]), "fill up with -1"),
        (lambda: nacp.noise_from_annotators([[-1, -1]]), "only missing"),
        (lambda: nacp.noise_from_model([[0.5, 0.5]], [2]), "noisy must lie from 0 to 1"),
        (lambda: nacp.noise_from_privacy(0.0, k=3), "epsilon must be above 0"),
        (lambda: nacp.noise_from_privacy("1", k=3), "epsilon must be a number"),
        (lambda: nacp.noise_from_privacy(1.0, k=1), "k must be a whole number of at least 2"),
        (lambda: nacp.MatrixNoise(np.eye(2), confidence=0.9), "that of a radius"),
        (lambda: nacp.GroupNoise([0, 0], {0: 0.1}, interval=(0, 0.2)), "one rate for all groups"),
    ],
)
def test_wrong_input_gets_a_sentence(call, said):
    with pytest.raises(InputError, match=said):
        call()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "not a noise file"),
        ({"version": 9}, "version 9"),
        ({"rate": 2.0}, "rate must lie"),
        ({"noise": {"name": "odd"}}, "noise must be one of .*; found 'odd'"),
        ({"interval": [0.1]}, "cannot be used: not enough values"),
        ({"k": 0}, "k must be a whole number of at least 2"),
        ({"noise": {"name": "matrix", "P": [[1, 0], [0, 1]]}}, "noise is for 2 classes, not for 6"),
    ],
)
def test_a_file_from_elsewhere_is_refused(change, said, tmp_path):
    path = tmp_path / "noise.json"
    nacp.noise_from_privacy(2.0, k=6).save(path)
    path.write_text(json.dumps(sealed(json.loads(path.read_text()) | change)))
    with pytest.raises(InputError, match=said) as caught:
        nacp.estimation.load(path)
    assert caught.value.argument == str(path)


# On the command line


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    probs, true = calibrated(2000, 4, rng)
    labels = np.stack([nacp.UniformNoise(0.2).sample(true, 4, rng) for _ in range(3)], axis=1)
    labels[::7, 2] = -1
    for name, array in {"probs": probs, "noisy": labels[:, 0], "true": true, "three": labels}.items():
        np.save(f"{name}.npy", array)
    for name, known in (("names", ["ant", "bee", "cat", "dog", ""]), ("numbers", ["0", "1", "2", "3", ""])):
        cells = np.array(known)[labels]
        rows = "".join(f"{i},{','.join(row)}\n" for i, row in enumerate(cells))
        Path(f"{name}.csv").write_text(f"id,a,b,c\n{rows}")
        Path(f"{name}-true.csv").write_text("label\n" + "".join(f"{known[v]}\n" for v in true))
        Path(f"{name}-noisy.csv").write_text("".join(f"{cell}\n" for cell in cells[:, 0]))
    Path("classes.txt").write_text("ant\nbee\ncat\ndog\n")
    return probs, true, labels


@pytest.mark.parametrize("kind", ["npy", "numbers", "names"])
def test_commands_do_what_the_functions_do(files, kind):
    probs, true, labels = files
    named = ["--classes", "classes.txt"] if kind == "names" else ["--k", "4"]
    audit = ("noisy.npy", "true.npy") if kind == "npy" else (f"{kind}-noisy.csv", f"{kind}-true.csv")
    done("audit", *audit, *named, "-o", "audit.json")
    done("annotators", "three.npy" if kind == "npy" else f"{kind}.csv", *named, "-o", "annotators.json")
    expected = {
        "audit": nacp.noise_from_audit(labels[:, 0], true, k=4),
        "annotators": nacp.noise_from_annotators(labels, k=4),
    }
    if kind == "npy":
        done("model", "probs.npy", "noisy.npy", "-o", "model.json")
        done("privacy", "2.5", "--k", "4", "-o", "privacy.json")
        expected |= {
            "model": nacp.noise_from_model(probs, labels[:, 0]),
            "privacy": nacp.noise_from_privacy(2.5, 4),
        }
    for name, estimate in expected.items():
        loaded = nacp.estimation.load(f"{name}.json")
        for number, each in enumerate(("ant", "bee", "cat", "dog")):  # it says their names
            loaded = replace(loaded, why=loaded.why.replace(repr(each), str(number)))
        assert replace(loaded, classes=estimate.classes) == estimate


def test_words_for_missing_labels_are_read_unless_they_name_a_class(files):
    rows = Path("numbers.csv").read_text().splitlines()
    Path("words.csv").write_text("\n".join(row.replace(",,", ",NA,").replace(",,", ",nan,") for row in rows))
    done("annotators", "words.csv", "--k", "4", "-o", "words.json")
    assert nacp.estimation.load("words.json") == nacp.noise_from_annotators(files[2], k=4)
    Path("na.csv").write_text("NA,NA\nZA,ZA\n" * 4)  # Namibia and South Africa
    Path("countries.txt").write_text("NA\nZA\n")
    done("annotators", "na.csv", "--classes", "countries.txt", "-o", "countries.json")
    assert nacp.estimation.load("countries.json").n == 8


def test_annotators_as_pandas_writes_them(files):
    table = pd.DataFrame(files[2]).mask(files[2] < 0).astype("Int64")
    shuffled = table.sample(frac=1, random_state=0)
    wanted = nacp.noise_from_annotators(files[2], k=4)
    table.to_csv("index.csv")
    shuffled.to_csv("shuffled.csv")
    table.set_axis(["a", "b", "c"], axis=1).to_csv("named.csv", index=False)
    shuffled.set_axis(["a", "b", "c"], axis=1).astype(float).to_parquet("shuffled.parquet")
    for name in ("index.csv", "shuffled.csv", "named.csv", "shuffled.parquet"):
        done("annotators", name, "-o", "found.json")
        found = nacp.estimation.load("found.json")
        assert (found.rate, found.n, found.k) == (wanted.rate, wanted.n, 4)
    table.to_csv("bare.csv", index=False)
    shuffled.to_csv("loose.csv", header=False)
    numbers = np.random.default_rng(3).integers(0, 100, size=(60, 3))
    pd.DataFrame(numbers, columns=list("abc")).rename_axis("nr").to_csv("many.csv")
    for name, said in (
        ("bare.csv", "begins with 0,1,2, which may be a header or labels"),
        ("loose.csv", "seems to number its rows"),
        ("many.csv", "seems to number its rows"),
        ("named.csv:a", "named.csv:a does not exist"),
    ):
        assert said in done("annotators", name, code=2)


def test_groups_of_different_sizes_with_different_rates_have_no_one_rate():
    groups = [0, 0, 1, 1, *[2] * 10]
    noise = nacp.GroupNoise(groups, {0: 0.0, 1: 0.0, 2: 0.5})
    clean = np.random.default_rng(0).integers(0, 14, 2000)
    estimate = nacp.noise_from_audit(noise.sample(clean, 14, 1), clean, k=14, groups=groups)
    assert isinstance(estimate.noise, nacp.MatrixNoise)
    assert "groups is refuted (no one rate fits groups of all sizes)" in estimate.why


@pytest.mark.parametrize("model", ["uniform", "groups"])
@pytest.mark.parametrize("k", [2, 100])
def test_labels_that_never_agree_are_told_in_a_sentence(model, k):
    """More disagreements than even a rate of 1 makes likely: no rate fits."""
    true = np.arange(1000) % k
    with pytest.raises(ValueError, match="disagree in 1,000 of 1,000 items: a rate of 1"):
        nacp.noise_from_audit((true + 1) % k, true, k=k, model=model, groups=[0] * k)
