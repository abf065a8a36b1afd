"""Bad input gets a sentence: the argument, what was found, what would do. Odd but good input works."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import nacp
from nacp.guarantees import Problem
from nacp.points import arrays

K = 4
N = 60
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(K), size=N)
LABELS = RNG.integers(K, size=N)
NAMES = ("ant", "bee", "cat", "dog")


def calibrate(probs=PROBS, labels=LABELS, **options):
    return nacp.calibrate(probs, labels, **{"noise": 0.1, "guarantee": "none"} | options)


def with_row(row, where=2):
    probs = PROBS.copy()
    probs[where] = row
    return probs


def complaint(call, *args, **options):
    """Return the message of the ValueError that a call raises: one sentence, without a traceback chain."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        call(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert not re.search(r"\. [A-Z]", message), "one sentence"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return message


def says(message, *words):
    missing = [word for word in words if word not in message]
    assert not missing, f"{missing} not in: {message}"


# Probabilities, at every door that takes them

DOORS = {
    "calibrate": calibrate,
    "predict_set": lambda probs: calibrate().predict_set(probs),
    "coverage_curve": lambda probs: nacp.coverage_curve(probs, LABELS, noise=0.1),
    "compare": lambda probs: nacp.compare_with_noisy_cp(probs, LABELS, noise=0.1),
    "scores": nacp.APS().scores,
    "label_scores": lambda probs: nacp.HPS().label_scores(probs, LABELS),
    "uniforms": nacp.APS().uniforms,
}

BAD_PROBS = {
    "nan": (with_row([0.5, np.nan, 0.25, 0.25]), "holds NaN", "row 2", "drop or repair"),
    "negative": (with_row([-0.125, 0.125, 0.5, 0.5]), "-0.125", "row 2", "between 0 and 1"),
    "above 1": (with_row([1.5, -0.5, 0.0, 0.0]), "1.5", "row 2", "between 0 and 1"),
    "infinite": (with_row([np.inf, 0.0, 0.0, 0.0]), "holds infinity", "row 2", "drop or repair"),
    "sum too small": (with_row([0.5, 0.25, 0.125, 0.0]), "row 2 sums to 0.875", "normalize=True"),
    "sum too large": (with_row([0.5, 0.5, 0.25, 0.25]), "row 2 sums to 1.5", "normalize=True"),
    "no mass": (with_row(np.zeros(K)), "row 2 sums to 0"),
    "logits": (RNG.normal(size=(N, K)) * 5, "logits", "from_logits=True"),
    "positive logits": (RNG.uniform(0, 9, size=(N, K)), "sum to 1", "from_logits=True for logits"),
    "log-probabilities": (np.log(PROBS), "log-probabilities", "np.exp(probs)"),
    "log of zero": (np.where(np.eye(K)[LABELS], 0.0, -np.inf), "log-probabilities", "np.exp(probs)"),
    "no rows": (PROBS[:0], "empty", f"(0, {K})"),
    "no columns": (PROBS[:, :0], "empty", f"({N}, 0)"),
    "one column": (np.ones((N, 1)), "one column", "at least two"),
    "1-d": (PROBS[0], "(n, k)", f"({K},)"),
    "3-d": (PROBS[None], "(n, k)", f"(1, {N}, {K})"),
    "nothing": (None, "(n, k)", "None"),
    "text": (PROBS.astype(str), "numbers", "<U"),
    "objects": (np.where(LABELS[:, None] == 1, "much", PROBS.astype(object)), "numbers", "object"),
    "missing": (pd.DataFrame(PROBS).astype("Float64").mask(PROBS < 0.1), "holds NaN", "drop or repair"),
    "complex": (PROBS + 0j, "numbers", "complex128"),
    "ragged": ([[0.5, 0.5], [1.0]], "(n, k)"),
    "percentages": (100 * PROBS, "looks like percentages", "row 0 sums to 100", "probs / 100"),
    "rounding below 0": (with_row([-1e-9, 0.25, 0.25, 0.5]), "-1e-09", "row 2", "np.clip(probs, 0, 1)"),
    "one row of logits": (with_row([-3.0, 1.0, 2.0, 0.5]), "from -3 to 2 in row 2", "drop or repair"),
    "counts": (np.round(40 * PROBS) + 1, "sum to 1", "normalize=True"),
    "sparse": (
        scipy.sparse.csr_array(PROBS / 2),
        "is a sparse matrix",
        "row 0 sums to 0.5",
        "probs.toarray()",
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", BAD_PROBS)
def test_bad_probs_are_refused_at_every_door(case, door):
    probs, *words = BAD_PROBS[case]
    if (case, door) == ("no rows", "predict_set"):
        assert len(calibrate().predict_set(probs)) == 0
        return
    says(complaint(DOORS[door], probs), "probs", *words)


@pytest.mark.parametrize("guarantee", ["none", "acnl"])
def test_the_first_bad_row_is_named_however_many_are_read_at_once(guarantee, monkeypatch):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(50), size=4000).astype(np.float32)
    labels = probs.argmax(axis=1)
    probs[101, 0], probs[3001, 0] = -0.2, np.nan
    monkeypatch.setattr(arrays, "block_entries", lambda in_place: 5000)
    with pytest.raises(ValueError, match=r"must lie between 0 and 1.* in row 101"):
        nacp.calibrate(probs, labels, noise=0.2, guarantee=guarantee)


def test_the_bad_row_is_named_in_any_block(monkeypatch):
    monkeypatch.setattr(arrays, "block_entries", lambda in_place: 3 * K)
    says(complaint(calibrate, with_row([np.nan] * K, where=50)), "row 50")
    says(complaint(calibrate, with_row([0.25, 0.25, 0.0, 0.0], where=50)), "row 50 sums to 0.5")


def test_a_probability_just_above_1_is_shown_as_such_and_located():
    message = complaint(calibrate, with_row([1 + 1e-6, 0.0, 0.0, 0.0]))
    says(message, "probs", "between 0 and 1", "1.000001", "row 2")


def test_infinities_of_both_signs_get_the_same_sentence():
    says(complaint(calibrate, with_row([np.inf, -np.inf, 0.0, 0.0])), *BAD_PROBS["infinite"][1:])


def test_the_row_without_mass_is_named_although_others_need_normalising():
    for scale in (0.5, 2.0):
        probs = PROBS * scale
        probs[7] = 0
        says(complaint(calibrate, probs, normalize=True), "probs", "row 7", "no mass")


def test_normalize_does_not_hide_logits():
    says(complaint(calibrate, BAD_PROBS["logits"][0], normalize=True), "logits", "from_logits=True")


def test_normalize_divides_by_the_row_sums_in_calibration_and_prediction():
    counts = RNG.integers(1, 9, size=(N, K))
    shares = counts / counts.sum(axis=1, keepdims=True)
    scaled, plain = calibrate(counts, normalize=True), calibrate(shares)
    assert scaled.threshold == plain.threshold
    assert scaled.predict_set(counts).to_lists() == plain.predict_set(shares).to_lists()


def test_float16_rows_need_not_sum_to_1_to_three_digits():
    half = RNG.dirichlet(np.full(1000, 0.1), size=N).astype(np.float16)
    off = np.abs(half.sum(axis=1, dtype=np.float64) - 1).max()
    assert off > 1e-5, "rounding is visible"
    calibrate(half, LABELS)
    double = half.astype(np.float64)
    double[0] *= 1.005 / double[0].sum()
    calibrate(double.astype(np.float16), LABELS)
    says(complaint(calibrate, double, LABELS), "row 0 sums to 1.005")


def test_another_k_at_prediction_is_refused():
    says(complaint(calibrate().predict_set, np.full((2, 5), 0.2)), "probs", "5 columns", "4 classes")


def test_scores_given_in_place_of_probs_are_checked_too():
    def door(scores):
        return calibrate(scores, score="precomputed")

    says(complaint(door, with_row([0, 1, np.nan, 3])), "scores", "probs", "NaN", "row 2")
    says(complaint(door, PROBS[:, 0]), "scores", "(n, k)", f"({N},)")


def test_a_score_function_must_return_one_number_per_entry():
    says(complaint(calibrate, score=lambda p: p[:, :1]), "score", f"({N}, 1)", "one score per entry")
    says(complaint(calibrate, score=lambda p: p * np.nan), "score", "NaN", "numbers")


# Labels


BAD_LABELS = {
    "1-based": (LABELS + 1, "0 to 3", "found 1 to 4", "start at 1", "subtract 1"),
    "negative": (LABELS - 1, "0 to 3", "found -1 to 2"),
    "too large": (LABELS * 5, "0 to 3", "found 0 to 15"),
    "huge": (np.where(LABELS == 0, np.uint64(2**64 - 1), LABELS.astype(np.uint64)), "0 to 3", str(2**64 - 1)),
    "too few": (LABELS[:-1], f"({N},)", f"({N - 1},)", "one per row"),
    "column": (LABELS[:, None], f"({N},)", f"({N}, 1)"),
    "one-hot": (np.eye(K)[LABELS], f"({N},)", f"({N}, {K})"),
    "nothing": (None, f"({N},)", "()"),
    "floats": (LABELS.astype(float), "whole numbers", "0 to 3", "float64"),
    "nan": (
        np.where(LABELS == 0, np.nan, LABELS),
        "no label in row",
        f"{np.argmin(LABELS)}",
        "drop such rows",
    ),
    "infinite": (np.where(LABELS == 0, np.inf, LABELS), "whole numbers", "float64"),
    "missing": (pd.Series(LABELS, dtype="Int64").mask(LABELS == 0), "no label in row", "drop such rows"),
    "None": (np.where(LABELS == 0, None, LABELS), "no label in row", "drop such rows"),
    "names": (np.take(NAMES, LABELS), f"{NAMES[LABELS[0]]}", "classes=", "order of the columns"),
    "list of names": ([NAMES[y] for y in LABELS], f"{NAMES[LABELS[0]]}", "classes="),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_are_refused(case):
    labels, *words = BAD_LABELS[case]
    for door in (calibrate, lambda p, y: nacp.coverage_curve(p, y, noise=0.1), nacp.HPS().label_scores):
        says(complaint(door, PROBS, labels), "labels", *words)


def test_tables_of_pandas_are_taken_for_what_they_hold():
    plain = calibrate()
    frame, series = pd.DataFrame(PROBS, columns=NAMES), pd.Series(LABELS)
    named = pd.Series(NAMES)[LABELS]
    for probs in (frame, frame.astype("Float64"), frame.astype(object)):
        for labels in (series, series.astype("Int64"), series.astype(object)):
            assert calibrate(probs, labels).threshold == plain.threshold
        for labels in (named, named.astype("category"), named.astype(object)):
            assert calibrate(probs, labels, classes=frame.columns).threshold == plain.threshold


def test_columns_that_are_named_by_the_classes_are_put_in_their_order():
    frame, labels = pd.DataFrame(PROBS, columns=NAMES), pd.Series(NAMES)[LABELS]
    turned = frame[["cat", "ant", "dog", "bee"]]
    cal, other = (calibrate(probs, labels, classes=NAMES) for probs in (frame, turned))
    assert other.threshold == cal.threshold
    assert cal.predict_set(turned).to_lists() == cal.predict_set(frame).to_lists()
    assert str(cal.diagnose(turned, labels)) == str(cal.diagnose(frame, labels))
    options = {"noise": 0.1, "classes": NAMES, "scores": ["hps"]}
    rows, others = (nacp.compare(p, labels, test_probs=p, **options).rows for p in (frame, turned))
    assert [row.mean_size for row in rows] == [row.mean_size for row in others]
    numbered = frame.set_axis(list("0123"), axis=1)[list("2031")]  # as pandas reads a file
    both = (calibrate(p, LABELS, classes=range(K)) for p in (frame, numbered))
    assert len({each.threshold for each in both}) == 1
    binary = pd.DataFrame({True: PROBS[:, 0], False: 1 - PROBS[:, 0]})
    cal_two = calibrate(binary, LABELS > 0, classes=[False, True])
    assert cal_two.predict_set(binary[:2]).to_lists() == cal_two.predict_set(binary).to_lists()[:2]
    counted = frame.set_axis(range(K), axis=1)  # these say nothing of names
    assert cal.predict_set(counted).to_lists() == cal.predict_set(frame).to_lists()
    unnamed = calibrate(counted, LABELS)  # without names a class is its number
    assert unnamed.classes is None
    assert unnamed.predict_set(counted[[2, 0, 3, 1]]).to_lists() == unnamed.predict_set(counted).to_lists()


def test_a_column_that_no_class_is_called_by_is_not_taken_by_its_place():
    frame = pd.DataFrame(PROBS, columns=NAMES)
    cal = calibrate(frame)
    for names in (["dog", "cat", "Bee", "ant"], list("wxyz"), ["ant", "bee", "cat", "cat"]):
        table = frame.set_axis(names, axis=1)
        missing = next(name for name in NAMES if name not in names)
        for door in (cal.predict_set, lambda p: calibrate(p, classes=NAMES)):
            says(complaint(door, table), "probs", f"no column {missing!r}", ", ".join(names))
    says(complaint(cal.diagnose, frame.rename(columns={"ant": "Ant"}), LABELS), "no column 'ant'")


def test_what_is_no_number_is_told_by_its_column_and_a_sparse_tensor_as_such():
    frame = pd.DataFrame(PROBS, columns=NAMES)
    says(complaint(calibrate, frame.assign(cat="high")), "numbers", "'high'", "'cat'")
    torch = pytest.importorskip("torch")
    for sparse in (torch.tensor(PROBS).to_sparse(), torch.tensor(PROBS).to_sparse_coo()):
        says(complaint(calibrate, sparse), "probs", "sparse", "to_dense")


@pytest.mark.parametrize("score", ["hps", "aps"])
def test_the_layout_of_an_array_plays_no_part(score):
    """A row's u is hashed from it, so not even the last bit of a sum may depend on the layout."""
    rng = np.random.default_rng(0)
    counts = np.exp(4 * rng.standard_normal((500, 100)))
    turned, labels = np.asfortranarray(counts), rng.integers(100, size=500)
    cal, other = (calibrate(p, labels, score=score, normalize=True) for p in (counts, turned))
    assert other.threshold == cal.threshold
    sets = cal.predict_set(counts).to_lists()
    assert cal.predict_set(turned).to_lists() == sets
    assert [cal.predict_set(turned[i : i + 1]).to_lists()[0] for i in range(500)] == sets


def test_labels_that_are_not_1_based_get_no_such_hint():
    assert "start at 1" not in complaint(calibrate, labels=LABELS * 5 + 1)
    assert "start at 1" not in complaint(calibrate, labels=LABELS - 1)


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (np.where(LABELS == 1, "elk", np.take(NAMES, LABELS)), NAMES, ["labels", "'elk'", "classes"]),
        (LABELS, [10, 11, 12, 13], ["labels", "not in classes"]),
        (LABELS + 1, NAMES, ["labels", "must lie from 0 to 3", "start at 1"]),
        (LABELS, NAMES[:3], ["classes", "4 different names", "found 3"]),
        (LABELS, ["ant", "ant", "bee", "cat"], ["classes", "4 different names", "found 4, 3"]),
        (LABELS, K, ["classes", "4 different names", "found 4"]),
    ],
    ids=[
        "unknown name",
        "numbers for others",
        "numbers from 1",
        "too few names",
        "one name twice",
        "a number",
    ],
)
def test_bad_class_names_are_refused(labels, classes, words):
    says(complaint(calibrate, labels=labels, classes=classes), *words)


def test_labels_to_make_noisy_are_checked():
    noise = nacp.UniformNoise(0.1)
    says(complaint(noise.sample, LABELS + 1, k=K), "labels", "0 to 3", "found 1 to 4")
    says(complaint(noise.sample, LABELS / 2, k=K), "labels", "whole numbers")
    says(complaint(noise.sample, 3, k=K), "labels", "()")


def test_no_labels_stay_no_labels_when_made_noisy():
    assert nacp.UniformNoise(0.1).sample(np.array([], dtype=int), k=K).shape == (0,)


# Noise


@pytest.mark.parametrize("rate", [-0.1, 1, 1.5, np.nan, np.inf, "0.2", True, None, 1j])
def test_a_rate_outside_of_0_to_1_is_refused(rate):
    for model in (nacp.UniformNoise, lambda r: nacp.GroupNoise([0, 0, 1, 1], r)):
        says(complaint(model, rate), "rate", "[0, 1)", f"found {rate!r}")
    if rate not in (None, "0.2"):  # which are no rates to calibrate: see the smaller doors below
        says(complaint(calibrate, noise=rate), "noise", "[0, 1)", f"found {rate!r}")


STOCHASTIC = 0.8 * np.eye(K) + 0.05
NEARLY_SINGULAR = 0.02 * np.eye(K) + 0.98 / K


BAD_MATRICES = {
    "rows": (STOCHASTIC * 2, "rows", "sum to 1", "row 0 sums to 2"),
    "columns": (np.array([[0.5, 0.25], [0.5, 0.75]]), "row 0 sums to 0.75", "columns do", "from_columns"),
    "singular": (np.full((K, K), 1 / K), "singular", "condition", "merge"),
    "equal rows": (np.eye(K)[[0, 0, 2, 3]], "singular", "merge"),
    "not square": (STOCHASTIC[:3], "(k, k)", "(3, 4)"),
    "1-d": (STOCHASTIC[0], "(k, k)", "(4,)"),
    "one class": (np.ones((1, 1)), "(k, k)", "(1, 1)"),
    "negative": (np.array([[1.25, -0.25], [0.0, 1.0]]), "probabilities", "-0.25 to 1.25"),
    "nan": (STOCHASTIC * np.nan, "probabilities", "nan"),
    "another k": (np.eye(5), "5 classes, not for 4"),
    "ill-conditioned": (NEARLY_SINGULAR, "ill-conditioned", f"{N} points", "merge", "more than"),
}


@pytest.mark.parametrize("case", BAD_MATRICES)
def test_bad_noise_matrices_are_refused(case):
    matrix, *words = BAD_MATRICES[case]
    says(complaint(calibrate, noise=matrix), "noise", *words)


def test_the_number_of_points_that_an_ill_conditioned_matrix_asks_for_is_enough():
    told = re.search(r"more than ([\d,]+) points", complaint(calibrate, noise=NEARLY_SINGULAR))[1]
    asked = int(told.replace(",", ""))
    probs, labels = np.resize(PROBS, (asked + 1, K)), np.resize(LABELS, asked + 1)
    calibrate(probs, labels, noise=NEARLY_SINGULAR)
    says(complaint(calibrate, probs[: asked - 1], labels[: asked - 1], noise=NEARLY_SINGULAR), "more than")


def test_bad_groups_are_refused():
    says(complaint(calibrate, noise=nacp.GroupNoise([0, 0, 1], 0.1)), "groups", "3 classes, not for 4")
    says(complaint(nacp.GroupNoise, [0], 0.1), "groups", "1 entries")
    says(complaint(nacp.GroupNoise, [0, 0, 1, 1], {0: 0.1}), "rate", "2 groups", "1 keys")
    says(complaint(nacp.GroupNoise, [0, 0, 1, 1], {0: 0.1, 1: 1.5}), "rate", "[0, 1)", "1.5")


def test_a_share_of_wrong_labels_that_no_noise_has_is_refused():
    says(complaint(nacp.UniformNoise.other, 0.75, k=4), "rate", "3/4", "found 0.75")
    says(complaint(nacp.GroupNoise.other, [0, 0, 1, 1], 0.5), "rate", "1/2", "found 0.5")


def test_bad_privacy_is_refused():
    for value in (-1.0, np.nan, "2", None):
        says(complaint(nacp.RandomizedResponse, value), "privacy", f"found {value!r}")
    says(complaint(nacp.RandomizedResponse, 0), "privacy", "above 0")


def test_a_posterior_needs_class_frequencies_that_fit_it():
    M, even = STOCHASTIC, np.full(K, 1 / K)
    says(complaint(nacp.MatrixNoise.from_posterior, M), "exactly one", "priors", "noisy_priors")
    says(complaint(nacp.MatrixNoise.from_posterior, M, priors=even, noisy_priors=even), "exactly one")
    says(complaint(nacp.MatrixNoise.from_posterior, M, priors=even[:3]), "priors", "4 positive", "(3,)")
    says(complaint(nacp.MatrixNoise.from_posterior, M, noisy_priors=even * 2), "noisy_priors", "sum 2")
    says(complaint(nacp.MatrixNoise.from_posterior, M, priors=[0.97, 0.01, 0.01, 0.01]), "priors", "negative")


# Levels, names and parameters


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, np.nan, "0.1", True])
def test_alpha_and_delta_lie_strictly_between_0_and_1(value):
    found = ["strictly between 0 and 1", f"found {value!r}"]
    says(complaint(calibrate, alpha=value), "alpha", *found)
    says(complaint(calibrate, alpha=[0.1, value]), "alpha", *found)
    says(complaint(calibrate, guarantee="nacp", delta=value), "delta", *found)
    says(complaint(nacp.NACP, value), "delta", *found)
    says(complaint(nacp.evaluate, calibrate().predict_set(PROBS), LABELS, alpha=value), "alpha", *found)


def test_no_alpha_at_all_is_refused():
    says(complaint(calibrate, alpha=[]), "alpha", "empty", "one number or several")
    says(complaint(calibrate, alpha=None), "alpha", "found None")


def test_unknown_names_are_answered_with_the_known_ones():
    says(complaint(calibrate, score="asp"), "score", "'asp'", "'aps'", "'raps'")
    says(complaint(calibrate, score=nacp.APS), "score", "class", "nacp.RAPS(")
    says(complaint(calibrate, guarantee="nap"), "guarantee", "'nap'", "'nacp'")
    says(complaint(calibrate, guarantee=nacp.NACP), "guarantee", "class", "'nacp'")
    says(complaint(calibrate, crossing="middle"), "crossing", "'middle'", "'first'", "'last'")


def test_a_delta_beside_a_guarantee_object_is_refused():
    says(complaint(calibrate, guarantee=nacp.NACP(0.1), delta=0.1), "delta", "NACP(delta=0.1)")


def test_guarantees_refuse_noise_they_do_not_cover():
    matrix = complaint(calibrate, noise=STOCHASTIC, guarantee="nacp")
    says(matrix, '"nacp"', "uniform noise", "MatrixNoise", '"pac"', '"expected"')
    says(complaint(calibrate, noise=STOCHASTIC, guarantee="binomial"), '"binomial"', "uniform noise", '"pac"')
    says(complaint(calibrate, guarantee="split"), '"split"', "noise=None", "UniformNoise(rate=0.1)")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nacp.RAPS(penalty=-1), ["penalty", "at least 0", "-1"]),
        (lambda: nacp.RAPS(penalty=np.nan), ["penalty", "at least 0", "nan"]),
        (lambda: nacp.RAPS(free=1.5), ["free", "whole number", "1.5"]),
        (lambda: nacp.SAPS(penalty="x"), ["penalty", "at least 0", "'x'"]),
        (lambda: nacp.APS(randomized="no"), ["randomized", "True or False", "'no'"]),
        (lambda: nacp.APS(seed=None), ["seed", "whole number", "None"]),
        (lambda: calibrate(guarantee=nacp.ACNL(priors=[0.5, 0.5])), ["priors", "4 positive", "(2,)"]),
        (
            lambda: calibrate(guarantee=nacp.CRCP(priors=[0, 0, 0.5, 0.5])),
            ["priors", "positive", "smallest 0"],
        ),
    ],
)
def test_bad_parameters_are_refused(make, words):
    says(complaint(make), *words)


# Where no threshold keeps the promise


def warned(*args, **options):
    """Return a calibration and the one NoValidThresholdWarning that came with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cal = calibrate(*args, **options)
    assert [w.category for w in caught] == [nacp.NoValidThresholdWarning]
    assert caught[0].filename == __file__, "it points at the caller"
    return cal, str(caught[0].message)


@pytest.mark.parametrize("guarantee", ["acnl", "crcp"])
def test_an_absent_class_is_fatal_only_to_the_methods_that_need_it(guarantee):
    labels = np.where(LABELS == 2, 3, LABELS)
    assert np.isfinite(calibrate(labels=labels).threshold)
    cal, message = warned(labels=labels, guarantee=guarantee)
    says(message, f'"{guarantee}"', "every class", "1 of 4 never occur", "class 2", "all 4 classes")
    assert cal.correction == cal.threshold == np.inf
    assert cal.obstacle in message
    assert cal.obstacle in " ".join(str(cal).split())
    assert (cal.predict_set(PROBS).sizes == K).all()


def test_given_priors_stand_in_for_an_absent_class_in_crcp():
    probs, labels = np.resize(PROBS, (4000, K)), np.resize(np.where(LABELS == 2, 3, LABELS), 4000)
    # Without noise: no class is absent where labels are replaced at random.
    cal = calibrate(probs, labels, noise=0.0, guarantee=nacp.CRCP(priors=[0.3, 0.3, 0.1, 0.3]), alpha=0.5)
    assert np.isfinite(cal.threshold)


UNEVEN = np.repeat(np.arange(K), [9, 12, 15, 24])


@pytest.mark.parametrize("alpha", [0.01, 0.025, 0.05])
@pytest.mark.parametrize("guarantee", [nacp.NACP(), nacp.NACP(delta=0.1), nacp.ACNL(), nacp.CRCP()], ids=repr)
def test_infeasible_means_all_classes_and_the_least_number_of_points_that_would_do(guarantee, alpha):
    cal, message = warned(labels=UNEVEN, guarantee=guarantee, alpha=alpha)
    says(message, f"{N} points", f'"{guarantee.name}"', "all 4 classes", f"{1 - alpha:g}", "would do")
    assert cal.threshold == np.inf
    assert (cal.predict_set(PROBS).sizes == K).all()

    def correction(n):
        return guarantee.correction(
            Problem(alpha, n, cal.noise, cal.noise.inverse(K), np.bincount(UNEVEN) * n / N)
        )

    least = int(re.search(r"([\d,]+) points would do", message)[1].replace(",", ""))
    assert correction(N) == cal.correction
    assert correction(least) <= alpha < correction(least - 1)


@pytest.mark.parametrize("alpha", [1 / m for m in range(3, 41)])
def test_split_conformal_says_how_many_points_it_needs(alpha):
    _, message = warned(PROBS[:1], LABELS[:1], noise=None, guarantee="split", alpha=alpha)
    least = int(re.search(r"([\d,]+) points would do", message)[1].replace(",", ""))
    split = {"noise": None, "guarantee": "split", "alpha": alpha}
    assert np.isfinite(calibrate(PROBS[:least], LABELS[:least], **split).threshold)
    warned(PROBS[: least - 1], LABELS[: least - 1], **split)


def test_no_sample_size_is_named_where_none_would_do():
    problem = Problem(0.1, N, None, nacp.UniformNoise(0.1).inverse(K), np.zeros(K))
    assert nacp.CRCP().samples_needed(problem, 0.1, 0.5) is None


def test_a_score_that_is_infinite_for_many_labels_is_not_blamed_on_the_correction():
    cal, message = warned(score=lambda p: np.where(p > 0.5, 1 - p, np.inf))
    assert cal.threshold == np.inf
    assert "correction" not in message, "a correction of 0 puts no target above 1"


# Odd but good input gives the same result as the plain array


class ArrayLike:
    """What a tensor or a data frame is to NumPy: an object that can be made an array."""

    def __init__(self, values):
        self.values = values
        self.shape = np.shape(values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def strided(array):
    return np.repeat(array, 3, axis=0)[::3]


def memory_mapped(array, folder):
    np.save(folder / "array.npy", array)
    return np.load(folder / "array.npy", mmap_mode="r")


SAME_PROBS = {
    "list": lambda p, _: p.tolist(),
    "tuples": lambda p, _: tuple(map(tuple, p.tolist())),
    "list of arrays": lambda p, _: list(p),
    "array-like": lambda p, _: ArrayLike(p),
    "Fortran order": lambda p, _: np.asfortranarray(p),
    "strided rows": lambda p, _: strided(p),
    "strided columns": lambda p, _: np.repeat(p, 2, axis=1)[:, ::2],
    "reversed twice": lambda p, _: p[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda p, _: read_only(p),
    "memory-mapped": memory_mapped,
    "big-endian": lambda p, _: p.astype(">f8"),
    "long double": lambda p, _: p.astype(np.longdouble),
    "subclass": lambda p, _: p.view(np.matrix),
    "negative zero": lambda p, _: np.where(p == 0, -0.0, p),
}
SAME_LABELS = {
    "list": lambda y, _: y.tolist(),
    "array-like": lambda y, _: ArrayLike(y),
    "strided": lambda y, _: strided(y),
    "read-only": lambda y, _: read_only(y),
    "memory-mapped": memory_mapped,
    **{dtype: lambda y, _, dtype=dtype: y.astype(dtype) for dtype in ("i1", "u1", "u8", ">i4")},
}


def with_zeros(dtype=np.float64):
    probs = PROBS.astype(dtype)
    probs[::3] = np.eye(K)[LABELS[::3]]
    return probs


def result(probs, labels, noise, score):
    cal = calibrate(probs, labels, noise=noise, score=score, alpha=0.2)
    return cal.threshold, cal.estimate, cal.predict_set(probs).to_lists()


@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("noise", [0.1, STOCHASTIC], ids=["uniform", "matrix"])
@pytest.mark.parametrize("kind", SAME_PROBS)
def test_any_kind_of_matrix_gives_what_the_plain_array_gives(kind, noise, score, tmp_path):
    plain = with_zeros()
    assert result(SAME_PROBS[kind](plain, tmp_path), LABELS, noise, score) == result(
        plain, LABELS, noise, score
    )


@pytest.mark.parametrize("kind", SAME_LABELS)
def test_any_kind_of_labels_gives_what_the_plain_array_gives(kind, tmp_path):
    assert result(PROBS, SAME_LABELS[kind](LABELS, tmp_path), 0.1, "aps") == result(PROBS, LABELS, 0.1, "aps")


@pytest.mark.parametrize("kind", ["array-like", "list", "Fortran order", "read-only", "subclass"])
def test_any_kind_of_noise_matrix_will_do(kind, tmp_path):
    noise = SAME_PROBS[kind](STOCHASTIC, tmp_path)
    assert result(PROBS, LABELS, noise, "hps") == result(PROBS, LABELS, STOCHASTIC, "hps")


@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32])
def test_certain_predictions_may_be_of_any_number_type(dtype, score):
    certain = np.eye(K)[LABELS]
    assert result(certain.astype(dtype), LABELS, 0.1, score) == result(certain, LABELS, 0.1, score)


def test_two_classes_may_be_labelled_true_and_false():
    probs, labels = PROBS[:, :2] / PROBS[:, :2].sum(axis=1, keepdims=True), LABELS % 2
    assert result(probs, labels == 1, 0.1, "hps") == result(probs, labels, 0.1, "hps")


@pytest.mark.parametrize("make", [list, np.array, lambda names: np.array(names, dtype=object)])
def test_class_names_and_labels_may_be_lists_or_arrays(make):
    named = calibrate(labels=make([NAMES[y] for y in LABELS]), classes=make(NAMES))
    assert named.threshold == calibrate().threshold
    assert named.classes == NAMES
    sets = calibrate().predict_set(PROBS).to_lists()
    assert named.predict_set(PROBS).to_lists() == [[NAMES[y] for y in labels] for labels in sets]


@pytest.mark.parametrize("number", [np.float64, np.float32, lambda v: np.array(v)[()]])
def test_numbers_may_be_numpy_scalars(number):
    cal = calibrate(noise=number(0.25), alpha=number(0.25))
    assert (cal.threshold, cal.alpha) == (calibrate(noise=0.25, alpha=0.25).threshold, 0.25)


def test_smaller_doors_speak_too():
    says(
        complaint(nacp.evaluate, np.ones((3, K), dtype=bool), [0, 1, 2]), "sets", "PredictionSets", "ndarray"
    )
    says(complaint(nacp.threshold_bracket, [0.5, np.nan], epsilon=0.2, k=10, alpha=0.1), "noisy_scores")
    says(
        complaint(nacp.threshold_bracket, [0.5], epsilon=0.2, k=0, alpha=0.1),
        "k must be",
        "at least 2",
        "found 0",
    )
    says(complaint(calibrate, noise="uniform"), "noise", "'uniform'", "a rate")
    says(complaint(calibrate, noise=nacp.UniformNoise), "noise", "UniformNoise", "a rate")
    says(complaint(calibrate, labels=[[0], [1, 2]]), "labels", "different lengths")
