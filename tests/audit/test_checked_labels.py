"""The forms in which checked labels are given, and what is refused."""

import numpy as np
import pytest

import nacp
from nacp.audit.checked_labels import open_clean
from tests.audit.simulation import points

MISSING = {
    "-1": lambda full: full,
    "nan": lambda full: np.where(full < 0, np.nan, full),
    "none": lambda full: [None if each < 0 else int(each) for each in full],
    "masked": lambda full: np.ma.array(np.maximum(full, 0), mask=full < 0),
    "pair": lambda full: (np.flatnonzero(full >= 0), full[full >= 0]),
}

# A pair may have rows whose label was not checked: a plan of which a part was done.
MISSING |= {
    f"pair, {name}": lambda full, form=form: (range(50), form(full))
    for name, form in MISSING.items()
    if name != "pair"
}

MISSING["pair, masked rows"] = lambda full: (np.ma.array(np.arange(50), mask=full < 0), np.maximum(full, 0))


@pytest.mark.parametrize("form", MISSING.values(), ids=MISSING)
def test_all_ways_to_say_which_labels_were_checked(form):
    full = np.full(50, -1)
    full[3:20] = np.arange(17) % 4
    rows, labels = open_clean(form(full), 50, 4)
    assert rows.tolist() == list(range(3, 20))
    assert labels.tolist() == (np.arange(17) % 4).tolist()
    backwards = open_clean((rows[::-1], labels[::-1]), 50, 4)
    assert [part.tolist() for part in backwards] == [rows.tolist(), labels.tolist()]
    names = ("a", "b", "c", "d")
    named = [None if each < 0 else names[each] for each in full]
    assert open_clean(named, 50, 4, names)[1].tolist() == labels.tolist()


@pytest.mark.parametrize(
    ("clean", "classes", "rows", "labels"),
    [
        ([True, None, False, np.nan], (False, True), [0, 2], [1, 0]),
        (([2, 0], [False, True]), (False, True), [0, 2], [1, 0]),
        ([-1, 1, None, -1], (-1, 1), [0, 1, 3], [0, 1, 0]),
        ((range(4), [-1, 1, None, -1]), (-1, 1), [0, 1, 3], [0, 1, 0]),
        (["?", None, "!", None], ("?", "!"), [0, 2], [0, 1]),
        (["?", None, "!", None], ("!", "."), [0, 2], [-1, 0]),
    ],
)
def test_names_of_classes_come_before_codes(clean, classes, rows, labels):
    assert [found.tolist() for found in open_clean(clean, 4, 2, classes)] == [rows, labels]


def test_labels_that_nobody_checked_are_noticed():
    probs, truth, noisy = points(1000, 5, 11)
    rows = np.arange(200)
    for clean in (noisy, (rows, noisy[rows])):
        with pytest.warns(nacp.AuditWarning, match="none of the .* checked labels differs from the given"):
            nacp.calibrate(probs, noisy, clean=clean)
    for score in ("hps", nacp.Precomputed()):
        right = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), score=score)
        assert right.checked == 200
    filled = np.where(np.arange(1000) < 200, truth, 0)
    with pytest.raises(nacp.InputError, match=r"clean is 0 in 8\d\d of 1,000 rows.*write -1 or None"):
        nacp.calibrate(probs, noisy, clean=filled)
    nacp.calibrate(probs, np.where(noisy < 4, 0, noisy), clean=np.where(truth < 4, 0, truth))


BAD = {
    "too short": (lambda c: c[:-1], "must have the shape (50,)"),
    "none checked": (lambda c: np.full(50, -1), "has no checked label at all"),
    "out of range": (lambda c: np.where(c >= 0, 9, -1), "must lie from 0 to 3"),
    "twice": (lambda c: ([3, 3], [1, 2]), "has row 3 more than once"),
    "row out of range": (lambda c: ([3, 50], [1, 2]), "must lie from 0 to 49"),
    "different lengths": (lambda c: ([3, 4, 5], [1, 2]), "3 rows"),
    "one number": (lambda c: 3, "must have the shape (50,)"),
    "text": (lambda c: "abc", "must have the shape (50,)"),
    "ragged": (lambda c: [[1], [1, 2]] * 25, "must have the shape (50,)"),
    "ragged pair": (lambda c: ([[0], [1, 2]], [0, 1]), "must have the shape (50,)"),
    "no pairs": (lambda c: ([], []), "has no checked label at all"),
    "a mask": (lambda c: c >= 0, "not whether they were checked"),
    "halves": (lambda c: np.where(c >= 0, 0.5, -1.0), "whole numbers"),
}


@pytest.mark.parametrize(("change", "said"), BAD.values(), ids=BAD)
def test_bad_checked_labels_get_one_clear_sentence(change, said):
    probs, truth, noisy = points(50, 4, 11)
    clean = np.where(np.arange(50) < 20, truth, -1)
    with pytest.raises(nacp.InputError) as caught:
        nacp.calibrate(probs, noisy, clean=change(clean))
    assert caught.value.argument == "clean"
    assert said in str(caught.value)
