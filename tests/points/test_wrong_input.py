"""Wrong probabilities and labels are refused: the message names what was found and what would do."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import nacp
from tests.refusals import refusal, says

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


# Probabilities

FUNCTIONS = {
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
    "just above 1": (with_row([1 + 1e-6, 0.0, 0.0, 0.0]), "between 0 and 1", "1.000001", "row 2"),
    "infinities of both signs": (with_row([np.inf, -np.inf, 0.0, 0.0]), "holds infinity", "row 2"),
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


@pytest.mark.parametrize("case", BAD_PROBS)
def test_wrong_probabilities_are_refused_by_every_function_that_takes_them(case):
    probs, *words = BAD_PROBS[case]
    for name, function in FUNCTIONS.items():
        if (case, name) == ("no rows", "predict_set"):
            assert len(function(probs)) == 0
        else:
            says(refusal(function, probs), "probs", *words)


LOGITS = {"from_logits": True}


@pytest.mark.parametrize(
    ("probs", "options", "words"),
    [
        (with_row(np.zeros(K), 7), {"normalize": True}, ["probs", "row 7", "no mass"]),
        (with_row([0, np.nan, 1, 2]), LOGITS, ["probs holds NaN, first in row 2"]),
        (with_row([0, np.inf, 1, 2]), LOGITS, ["probs holds infinity, first in row 2"]),
        (with_row(np.full(K, -np.inf)), LOGITS, ["holds no finite logit, first in row 2"]),
        (PROBS, LOGITS | {"normalize": True}, ["from_logits makes probabilities that sum to 1"]),
        (PROBS, LOGITS | {"score": "precomputed"}, ["from_logits makes probabilities, and this score"]),
        (PROBS, {"from_logits": "yes"}, ["from_logits must be True or False"]),
        (BAD_PROBS["logits"][0], {"normalize": True}, ["logits", "from_logits=True"]),
        (with_row([0, 1, np.nan, 3]), {"score": "precomputed"}, ["scores", "probs", "NaN", "row 2"]),
        (PROBS, {"score": "precomputed", "normalize": True}, ["normalize divides probabilities"]),
        (PROBS[:, 0], {"score": "precomputed"}, ["scores", "(n, k)", f"({N},)"]),
        (PROBS, {"score": lambda p: p[:, :1]}, ["score", f"({N}, 1)", "one score per entry"]),
        (PROBS, {"score": lambda p: p * np.nan}, ["score", "NaN", "numbers"]),
    ],
)
def test_what_the_options_make_of_rows_is_checked_too(probs, options, words):
    says(refusal(calibrate, probs, **options), *words)


# Labels


BAD_LABELS = {
    "1-based": (LABELS + 1, "0 to 3", "found 1 to 4", "start at 1", "subtract 1"),
    "negative": (LABELS - 1, "0 to 3", "found -1 to 2"),
    "too large": (LABELS * 5, "0 to 3", "found 0 to 15"),
    "from 1, too large": (LABELS * 5 + 1, "0 to 3", "found 1 to 16"),
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
    "sparse": (scipy.sparse.csr_array(LABELS[None]), "is a sparse matrix", "pass labels.toarray()"),
    "list of names": ([NAMES[y] for y in LABELS], f"{NAMES[LABELS[0]]}", "classes="),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_are_refused(case):
    labels, *words = BAD_LABELS[case]
    for call in (calibrate, lambda p, y: nacp.coverage_curve(p, y, noise=0.1), nacp.HPS().label_scores):
        message = refusal(call, PROBS, labels)
        says(message, "labels", *words)
        assert ("start at 1" in message) == (case == "1-based")


def test_the_column_that_holds_no_numbers_is_named_and_sparse_tensors_are_refused():
    frame = pd.DataFrame(PROBS, columns=NAMES)
    says(refusal(calibrate, frame.assign(cat="high")), "numbers", "'high'", "'cat'")
    torch = pytest.importorskip("torch")
    for sparse in (torch.tensor(PROBS).to_sparse(), torch.tensor(PROBS).to_sparse_coo()):
        says(refusal(calibrate, sparse), "probs", "sparse", "to_dense")


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (np.where(LABELS == 1, "elk", np.take(NAMES, LABELS)), NAMES, ["labels", "'elk'", "classes"]),
        (LABELS, [10, 11, 12, 13], ["labels", "not in classes"]),
        (LABELS + 1, NAMES, ["labels", "the number", "'ant'"]),
        (LABELS, NAMES[:3], ["classes", "4 different names", "found 3"]),
        (LABELS, ["ant", "ant", "bee", "cat"], ["classes", "4 different names", "found 4, 3"]),
        (LABELS, K, ["classes", "4 different names", "found 4"]),
    ],
)
def test_bad_class_names_are_refused(labels, classes, words):
    says(refusal(calibrate, labels=labels, classes=classes), *words)


@pytest.mark.parametrize("name", ["probs", "labels", "groups"])
def test_tables_that_numpy_takes_for_single_objects_are_refused(name):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    column = {f"c{i}": PROBS[:, i] for i in range(K)} if name == "probs" else {"c": LABELS}
    says(
        refusal(calibrate, **{name: polars.DataFrame(column).lazy()}),
        name,
        "LazyFrame",
        f"pass {name}.collect()",
    )
    says(refusal(calibrate, **{name: pyarrow.table(column)}), name, "is a Table", f"pass {name}.to_pandas()")
    if name == "probs":
        cal = calibrate()
        says(refusal(cal.predict_set, polars.DataFrame(column).lazy()), "pass probs.collect()")
