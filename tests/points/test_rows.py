"""Repeated rows are noticed, and prediction rounds rows to the width of those of the calibration."""

import dataclasses

import numpy as np
import pytest

import nacp
from nacp.paper import twins
from nacp.points.arrays import Rows
from nacp.points.repeats import repeats

# Repeated rows


def layouts(items, times, rng):
    """The ways in which several labels of each item may be stacked."""
    repeated = np.repeat(items, times, axis=0)
    yield "one after the other", repeated
    yield "one annotator after the other", np.tile(items, (times, 1))
    yield "shuffled", repeated[rng.permutation(len(repeated))]


@pytest.mark.parametrize(
    ("k", "width"), [(2, np.float64), (10, np.float16), (10, np.float32), (300, np.float32)]
)
def test_stacked_labels_are_noticed(k, width):
    rng = np.random.default_rng(k)
    items = rng.dirichlet(np.full(k, 0.5), size=700).astype(width)
    for times in (2, 3, 5):
        for name, rows in layouts(items, times, rng):
            assert repeats(Rows(rows)) == pytest.approx(times, abs=0.1), name
    assert repeats(Rows(items)) is None
    varied = np.repeat(items, rng.integers(1, 6, size=700), axis=0)
    assert repeats(Rows(varied)) == pytest.approx(3, abs=0.6)


def test_calibrate_warns_once_and_finds_the_same_threshold():
    probs, truth = twins.simulate("cifar10", n=600, random_state=0)
    labels = nacp.UniformNoise(0.2).sample(truth, 10, random_state=0)
    stacked, thrice = np.repeat(probs, 3, axis=0), np.repeat(labels, 3)
    with pytest.warns(nacp.RepeatedRowsWarning, match="about 3 times each") as caught:
        cal = nacp.calibrate(stacked, thrice, noise=0.2, guarantee="none")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert cal.threshold == nacp.calibrate(probs, labels, noise=0.2, guarantee="none").threshold
    with pytest.warns(nacp.RepeatedRowsWarning):
        nacp.calibrate(stacked, thrice, clean=np.repeat(truth, 3))


@pytest.mark.filterwarnings("error")
def test_rows_that_repeat_rightly_are_not_blamed():
    """One-hot rows, trees and forests; in any order, and drawn with replacement."""
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    inputs, classes = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(classes))
    train, calibrate = order[:900], order[900:]
    for model in (
        DecisionTreeClassifier(max_depth=3, random_state=0),
        DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
        RandomForestClassifier(10, random_state=0),
    ):
        found = model.fit(inputs[train], classes[train]).predict_proba(inputs[calibrate])
        sure = np.eye(10)[found.argmax(axis=1)]
        for rows in (found, sure, found.round(1), found.astype(np.float32)):
            by_class = np.argsort(classes[calibrate], kind="stable")
            drawn = rng.integers(len(rows), size=4 * len(rows))
            for order in (slice(None), by_class, np.argsort(rows[:, 3]), np.lexsort(rows.T), drawn):
                assert repeats(Rows(rows[order])) is None


# Widths


@pytest.fixture(scope="module")
def atoms():
    """Probabilities in sevenths and twentieths, so that thresholds lie on values that many rows share."""
    rng = np.random.default_rng(2)
    k, n = 4, 2000
    parts = rng.choice([7, 20], size=n)
    counts = np.array(
        [rng.multinomial(m, w) for m, w in zip(parts, rng.dirichlet(np.ones(k), n), strict=True)]
    )
    probs = counts / parts[:, None]
    labels = (probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    return probs, labels


@pytest.mark.parametrize("score", ["hps", "aps", nacp.APS(randomized=False)], ids=str)
def test_wider_rows_are_seen_in_the_width_of_the_calibration(atoms, score):
    probs, labels = atoms
    for alpha in (0.1, 0.4):
        for width in (np.float32, np.float16):
            narrow = probs.astype(width)
            cal = nacp.calibrate(narrow, labels, noise=None, alpha=alpha, score=score)
            found = [cal.predict_set(rows).to_lists() for rows in (narrow, probs)]
            assert found[0] == found[1]


def test_narrower_rows_are_refused(atoms):
    """What float64 has on the threshold, float32 may have on the other side of it: coverage would fall."""
    probs, labels = atoms
    short = []
    for cal in nacp.calibrate(probs, labels, noise=None, alpha=np.linspace(0.05, 0.6, 12).tolist()):
        unknown = dataclasses.replace(cal, widths=None)  # as from a file that does not say
        narrow, wide = unknown.predict_set(probs.astype(np.float32)), cal.predict_set(probs)
        assert nacp.evaluate(wide, labels).coverage >= 1 - cal.alpha
        short.append(nacp.evaluate(narrow, labels).coverage < 1 - cal.alpha)
    assert any(short)
    with pytest.raises(nacp.InputError, match="is float32, but the calibration was made with float64"):
        cal.predict_set(probs.astype(np.float32))
    with pytest.raises(nacp.InputError, match="calibrate with float16 too"):
        nacp.calibrate(probs.astype(np.float32), labels, noise=None).predict_set(probs.astype(np.float16))


def test_rows_that_were_only_written_wider_may_be_narrow_again_and_normalised_ones_are_rounded_before(atoms):
    probs, labels = atoms
    narrow = probs.astype(np.float32)
    cal = nacp.calibrate(narrow.astype(np.float64), labels, noise=None, alpha=0.1)
    assert cal.widths == ("float32", "float64")
    assert cal.predict_set(narrow).to_lists() == cal.predict_set(narrow.astype(np.float64)).to_lists()
    cal = nacp.calibrate(2 * narrow, labels, noise=None, alpha=0.1, normalize=True)
    assert cal.predict_set(2 * narrow).to_lists() == cal.predict_set(2 * probs).to_lists()
