"""Probabilities and labels in all accepted forms: arrays, tables, tensors, logits, names and numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import nacp
from tests.refusals import refusal, says

K, N = 5, 400
NAMES = ("ant", "bee", "cat", "dog", "elk")
RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.standard_normal((N, K))
PROBS = softmax(LOGITS, axis=1)
TRUE = (PROBS.cumsum(axis=1) > RNG.random((N, 1))).argmax(axis=1)
NOISY = nacp.UniformNoise(0.1).sample(TRUE, K, random_state=0)
NAMED = np.array(NAMES)[NOISY]
OPTIONS = {"noise": 0.1, "guarantee": "none"}
MATRIX = 0.8 * np.eye(K) + 0.2 / K


def calibrate(probs=PROBS, labels=NOISY, **options):
    return nacp.calibrate(probs, labels, **OPTIONS | options)


# Arrays and tables


class ArrayLike:
    """An object that can be made an array, as a tensor or a data frame can."""

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


def memory_mapped(array, folder):
    np.save(folder / "array.npy", array)
    return np.load(folder / "array.npy", mmap_mode="r")


SAME_ARRAY = {
    "list": lambda p, _: p.tolist(),
    "list of arrays": lambda p, _: list(p),
    "array-like": lambda p, _: ArrayLike(p),
    "Fortran order": lambda p, _: np.asfortranarray(p),
    "strided rows": lambda p, _: np.repeat(p, 3, axis=0)[::3],
    "read-only": lambda p, _: read_only(p),
    "memory-mapped": memory_mapped,
    "big-endian": lambda p, _: p.astype(p.dtype.newbyteorder(">")),
}
SAME_PROBS = SAME_ARRAY | {
    "tuples": lambda p, _: tuple(map(tuple, p.tolist())),
    "strided columns": lambda p, _: np.repeat(p, 2, axis=1)[:, ::2],
    "reversed twice": lambda p, _: p[::-1, ::-1].copy()[::-1, ::-1],
    "long double": lambda p, _: p.astype(np.longdouble),
    "subclass": lambda p, _: p.view(np.matrix),
    "negative zero": lambda p, _: np.where(p == 0, -0.0, p),
}
SAME_LABELS = SAME_ARRAY | {
    dtype: lambda y, _, dtype=dtype: y.astype(dtype) for dtype in ("i1", "u1", "u8", ">i4")
}
WITH_ZEROS = np.where(np.arange(N)[:, None] % 3 == 0, np.eye(K)[TRUE], PROBS)


def result(probs, labels, noise, score):
    cal = calibrate(probs, labels, noise=noise, score=score, alpha=0.2)
    return cal.threshold, cal.estimate, cal.predict_set(probs).to_lists()


@pytest.mark.parametrize(("score", "noise"), [("hps", 0.1), ("aps", MATRIX)])
@pytest.mark.parametrize("kind", SAME_PROBS)
def test_any_kind_of_matrix_gives_what_the_plain_array_gives(kind, noise, score, tmp_path):
    same = SAME_PROBS[kind](WITH_ZEROS, tmp_path)
    (tmp_path / "noise").mkdir()
    stated = SAME_PROBS[kind](noise, tmp_path / "noise") if noise is MATRIX else noise
    assert result(same, NOISY, stated, score) == result(WITH_ZEROS, NOISY, noise, score)


@pytest.mark.parametrize("kind", SAME_LABELS)
def test_any_kind_of_labels_gives_what_the_plain_array_gives(kind, tmp_path):
    assert result(PROBS, SAME_LABELS[kind](NOISY, tmp_path), 0.1, "aps") == result(PROBS, NOISY, 0.1, "aps")


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32])
def test_certain_predictions_may_be_of_any_number_type(dtype):
    certain = np.eye(K)[TRUE]
    for score in ("hps", "aps"):
        assert result(certain.astype(dtype), NOISY, 0.1, score) == result(certain, NOISY, 0.1, score)


def test_tables_of_pandas_hold_numbers_names_and_categories():
    plain = calibrate()
    frame, series = pd.DataFrame(PROBS, columns=NAMES), pd.Series(NOISY)
    named = pd.Series(NAMES)[NOISY]
    for probs in (frame, frame.astype("Float64"), frame.astype(object)):
        for labels in (named, named.astype("category"), named.astype(object)):
            cal = calibrate(probs, labels)
            assert (cal.threshold, cal.classes) == (plain.threshold, NAMES)
    for labels in (series, series.astype("Int64")):
        counted = calibrate(pd.DataFrame(PROBS), labels)
        assert (counted.threshold, counted.classes) == (plain.threshold, None)
    clean = (np.arange(100), np.array(NAMES)[TRUE[:100]])
    assert nacp.calibrate(frame, named, clean=clean).classes == NAMES
    assert nacp.noise_from_model(frame, named).k == K


def test_columns_that_are_named_by_the_classes_are_put_in_their_order():
    frame, labels = pd.DataFrame(PROBS, columns=NAMES), pd.Series(NAMES)[NOISY]
    turned = frame[["dog", "ant", "elk", "cat", "bee"]]
    cal, other = (calibrate(probs, labels, classes=NAMES) for probs in (frame, turned))
    assert other.threshold == cal.threshold == calibrate(turned, labels).threshold
    assert cal.predict_set(turned).to_lists() == cal.predict_set(PROBS).to_lists()
    assert str(cal.diagnose(turned, labels)) == str(cal.diagnose(frame, labels))
    options = {"noise": 0.1, "classes": NAMES, "scores": ["hps"]}
    rows, others = (nacp.compare(p, labels, test_probs=p, **options).rows for p in (frame, turned))
    assert [row.mean_size for row in rows] == [row.mean_size for row in others]
    counted = pd.DataFrame(PROBS)  # its columns are taken in their place
    assert cal.predict_set(counted).to_lists() == cal.predict_set(PROBS).to_lists()
    numbered = frame.set_axis(list("01234"), axis=1)[list("20431")]  # as pandas reads a file
    assert calibrate(numbered, classes=range(K)).threshold == cal.threshold
    binary = pd.DataFrame({True: PROBS[:, 0], False: 1 - PROBS[:, 0]})
    cal_two = calibrate(binary, NOISY > 0, classes=[False, True])
    assert cal_two.predict_set(binary[:2]).to_lists() == cal_two.predict_set(binary).to_lists()[:2]


def test_a_class_without_a_column_is_refused():
    frame = pd.DataFrame(PROBS, columns=NAMES)
    cal = calibrate(frame, NAMED)
    for names in (["dog", "cat", "Bee", "ant", "elk"], list("vwxyz"), ["ant", "bee", "cat", "cat", "elk"]):
        table = frame.set_axis(names, axis=1)
        missing = next(name for name in NAMES if name not in names)
        for call in (cal.predict_set, lambda p: calibrate(p, classes=NAMES)):
            says(refusal(call, table), "probs", f"no column {missing!r}", ", ".join(names))
    says(refusal(cal.diagnose, frame.rename(columns={"ant": "Ant"}), NOISY), "no column 'ant'")


def test_masked_entries_are_missing():
    hidden = np.ma.masked_array(PROBS, mask=False)
    assert calibrate(hidden) == calibrate()
    hidden[399, 1] = np.ma.masked
    says(refusal(calibrate, hidden), "probs holds NaN, first in row 399")
    unknown = np.ma.masked_array(NOISY, mask=np.arange(N) == 17)
    says(refusal(calibrate, labels=unknown), "labels has no label in row 17")


# Logits


@pytest.mark.parametrize(
    ("score", "shift"), [("hps", 0.0), ("hps", 800.0), ("hps", -800.0), ("aps", 0.0), ("raps", 0.0)]
)
def test_logits_give_the_sets_of_their_softmax(score, shift):
    """A softmax that is not stable would overflow, or vanish."""
    plain = calibrate(PROBS, NOISY, score=score)
    cal = calibrate(LOGITS + shift, NOISY, score=score, from_logits=True)
    # LOGITS + 800 has fewer bits.
    assert cal.threshold == pytest.approx(plain.threshold, rel=1e-10 if shift else 1e-14)
    by_hand, sets = plain.predict_set(PROBS), cal.predict_set(LOGITS + shift)
    assert np.count_nonzero(np.asarray(by_hand) != np.asarray(sets)) <= 1  # that at the threshold itself


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("option", ["from_logits", "normalize"])
def test_a_row_has_the_same_set_in_any_batch_and_memory_layout(option, dtype):
    """A row's u is hashed from it, so not even the last bit of a sum may depend on the layout."""
    logits = (2 * RNG.standard_normal((200, 37))).astype(dtype)
    rows = logits if option == "from_logits" else np.exp(logits)
    options = {"noise": None, "alpha": 0.3, "score": "aps", option: True}
    labels = logits.argmax(axis=1)
    cal, turned = (nacp.calibrate(p, labels, **options) for p in (rows, np.asfortranarray(rows)))
    assert turned == cal
    sets = cal.predict_set(rows).to_lists()
    assert cal.predict_set(np.asfortranarray(rows)).to_lists() == sets
    assert [cal.predict_set(rows[i : i + 1]).to_lists()[0] for i in range(200)] == sets


def test_a_calibration_keeps_that_it_was_made_from_logits(tmp_path):
    cal = calibrate(LOGITS, NAMED, from_logits=True, classes=NAMES)
    cal.save(tmp_path / "cal.json")
    again = nacp.load(tmp_path / "cal.json")
    assert again == cal
    assert again.from_logits
    assert again.predict_set(LOGITS).to_lists() == cal.predict_set(LOGITS).to_lists()
    assert not nacp.diagnose(again, LOGITS, NAMED).rejected
    assert nacp.sensitivity(again, LOGITS, NAMED).rows
    says(refusal(again.predict_set, PROBS), "probs must hold logits; found probab")


def test_logits_are_taken_at_every_door():
    options = {"noise": 0.1, "scores": ["hps"], "guarantees": ["none", "pac"]}
    plain, found = (
        nacp.compare(PROBS, NOISY, **options),
        nacp.compare(LOGITS, NOISY, from_logits=True, test_probs=LOGITS, test_labels=TRUE, **options),
    )
    assert [row.threshold for row in found.rows] == pytest.approx([row.threshold for row in plain.rows])
    assert found.rows[0].calibration.from_logits
    for labels in (NOISY, None):
        cal = nacp.calibrate(LOGITS, labels, clean=(np.arange(100), TRUE[:100]), from_logits=True)
        assert (cal.from_logits, len(cal.predict_set(LOGITS))) == (True, N)
    estimate = nacp.noise_from_model(LOGITS, NOISY, from_logits=True)
    assert estimate.rate == pytest.approx(nacp.noise_from_model(PROBS, NOISY).rate, abs=1e-6)
    assert len(nacp.choose_audit(LOGITS, NOISY, budget=50, from_logits=True).rows) == 50
    page = nacp.make_report(LOGITS, NOISY, noise=0.1, guarantee="none", from_logits=True)
    assert page.contents.calibration.from_logits


# Names and numbers


def test_numbers_are_refused_where_classes_have_names():
    """Numbers were read as alphabetical positions of names: sets of 17 of 20 labels."""
    cal = calibrate(PROBS, NAMED, classes=NAMES)
    sets, words = cal.predict_set(PROBS), ["the number 2", "names, such as 'ant'", "np.asarray(classes)["]
    for call, more in (
        (calibrate, {"probs": PROBS, "labels": NOISY, "classes": NAMES}),
        (calibrate, {"probs": pd.DataFrame(PROBS, columns=NAMES), "labels": NOISY}),
        (
            nacp.calibrate,
            {"probs": PROBS, "labels": np.column_stack([NOISY, NOISY]), "noise": 0.1, "classes": NAMES},
        ),
        (nacp.evaluate, {"sets": sets, "labels": NOISY}),
        (sets.contains, {"labels": NOISY}),
        (cal.diagnose, {"probs": PROBS, "labels": NOISY}),
    ):
        says(refusal(call, **more), "labels", *words)
    clean = np.where(np.arange(N) < 100, TRUE, -1)
    says(refusal(nacp.calibrate, PROBS, NAMED, clean=clean, classes=NAMES), "clean", "the number")


def test_where_classes_are_numbers_labels_are_their_names():
    years = (2019, 2020, 2021, 2022, 2023)
    by_name = calibrate(PROBS, np.array(years)[NOISY], classes=years)
    assert by_name.threshold == calibrate(PROBS, NOISY).threshold
    with pytest.raises(nacp.InputError, match="not in classes"):
        calibrate(PROBS, NOISY, classes=years)
    # Names that are written as numbers, as from a file: 1 is "1", not the column after the first.
    written = ("1", "2", "3", "4", "5")
    assert calibrate(PROBS, NOISY + 1, classes=written).threshold == by_name.threshold
    with pytest.raises(nacp.InputError, match="holds 0, which is not in classes"):
        calibrate(PROBS, NOISY, classes=written)


# Rows in 16 bits


@pytest.mark.filterwarnings("ignore::nacp.NoiseModelWarning", "ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize(("k", "spread"), [(10, 1.0), (100, 4.0), (1000, 1.0)])
def test_a_softmax_in_16_bits_is_probabilities_and_half_a_percent_off_otherwise_is_not(k, spread):
    torch = pytest.importorskip("torch")
    drawn = torch.Generator().manual_seed(k)
    logits = spread * torch.randn(500, k, generator=drawn)
    labels = torch.randint(k, (500,), generator=drawn)
    powers = logits.bfloat16().exp()
    by_hand = powers / powers.sum(dim=1, keepdim=True)
    rounded = logits.bfloat16().softmax(1), logits.softmax(1).bfloat16(), logits.half().softmax(1)
    for probs in (*rounded, by_hand):
        same = probs.float().numpy()  # as it is, with its sums
        found = {calibrate(each, labels).threshold for each in (probs, same, same.astype(np.float64))}
        assert len(found) == 1
    off = by_hand.float()
    assert (off.double().sum(dim=1) - 1).abs().max() > 0.001
    # Not a number of 16 bits; too much even for these.
    for wrong in ((1.005 * off).numpy(), (1.02 * off).numpy(), (1.02 * off).bfloat16()):
        says(refusal(calibrate, wrong, labels), "must have rows that sum to 1")
