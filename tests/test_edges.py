"""Unusual inputs of `calibrate`, from the points to the threshold."""

import numpy as np
import pytest
import scipy.sparse

import nacp
from nacp.errors import InputError

RNG = np.random.default_rng(0)


def test_split_takes_scores_beyond_the_grid_as_its_threshold():
    scores, labels = RNG.random((2000, 3)) * 1e7, RNG.integers(3, size=2000)
    cal = nacp.calibrate(scores, labels, noise=None, score="precomputed", alpha=0.1)
    ours = np.sort(scores[np.arange(2000), labels])
    assert cal.threshold == ours[int(np.ceil(2001 * 0.9)) - 1]
    assert cal.obstacle is None


@pytest.mark.parametrize("guarantee", ["pac", "binomial", "expected"])
def test_scores_beyond_the_grid_are_named_where_no_threshold_is_found(guarantee):
    scores, labels = RNG.random((2000, 3)) * 1e7, RNG.integers(3, size=2000)
    with pytest.warns(nacp.NoValidThresholdWarning, match="labels have scores above"):
        nacp.calibrate(scores, labels, noise=0.2, score="precomputed", guarantee=guarantee)


@pytest.mark.filterwarnings("ignore:the labels contradict")
@pytest.mark.parametrize("guarantee", ["pac", "binomial"])
def test_all_scores_may_lie_above_the_thresholds_that_are_tested(guarantee):
    with pytest.warns(nacp.NoValidThresholdWarning):
        nacp.calibrate(
            np.full((99, 2), 2_095_000.0), [0] * 99, noise=0.2, score="precomputed", guarantee=guarantee
        )


def test_thirds_of_labels_reach_every_target_of_split():
    p, n = RNG.random(99_999), 99_999
    cal = nacp.calibrate(np.column_stack([p, 1 - p]), RNG.integers(0, 2, (n, 3)), noise=None, alpha=1e-5)
    assert np.isfinite(cal.threshold)


def test_two_annotators_who_disagree_are_no_indicator_of_the_label():
    stream = nacp.Calibrator(noise=0.2)
    stream.update([[0.6, 0.4]], [[0, 1]])
    assert stream.n == 1
    with pytest.raises(InputError, match="a 1 for the label"):
        nacp.calibrate(np.full((40, 2), 0.5), np.eye(2)[RNG.integers(2, size=40)], noise=0.2)


def test_a_single_row_of_logits_may_look_like_probabilities():
    logits = RNG.normal(size=(99, 2))
    cal = nacp.calibrate(logits, [0, 1, 0] * 33, noise=0.2, alpha=0.3, guarantee="none", from_logits=True)
    assert len(cal.predict_set([[0.25, 0.75]])) == 1


def test_widths_do_not_depend_on_how_points_arrive():
    probs, labels = RNG.dirichlet(np.ones(5), 640), RNG.integers(5, size=640)
    probs[::20] = np.eye(5)[0]  # rows that float16 represents exactly
    whole = nacp.calibrate(probs, labels, noise=0.2, guarantee="none")
    stream = nacp.Calibrator(noise=0.2)
    stream.update(probs, labels)
    assert whole.widths == stream.finish(guarantee="none").widths


def test_points_without_labels_are_as_wide_as_the_others():
    probs, labels = RNG.dirichlet(np.ones(4), 500), RNG.integers(4, size=500)
    with pytest.raises(InputError, match="float16, but the calibration was made with float64"):
        nacp.calibrate(
            probs, labels, noise=0.2, guarantee="binomial", unlabelled=np.full((9, 4), 0.25, np.float16)
        )


@pytest.mark.filterwarnings("ignore:no threshold keeps")
def test_the_advice_for_an_interval_is_that_of_its_worst_rate():
    probs, labels = RNG.dirichlet(np.ones(5), 300), RNG.integers(5, size=300)
    found = [
        nacp.calibrate(probs, labels, noise=nacp.UniformNoise(*rate), guarantee="nacp").obstacle
        for rate in ((0.85,), (0.85, (0.2, 0.9)), (0.9,))
    ]
    assert found[1] == found[2] != found[0]


@pytest.mark.filterwarnings("ignore:alpha = ")
def test_empty_sets_may_reach_the_target():
    cal = nacp.calibrate([[0.5, 0.5]] * 99, [0, 1, 0] * 33, noise=0.1, guarantee="none", alpha=1 - 1e-13)
    assert cal.predict_set([[0.9, 0.1]]).sizes.tolist() == [0]


@pytest.mark.filterwarnings("ignore:Sparse CSC")
def test_odd_matrices_are_refused_in_a_sentence():
    torch = pytest.importorskip("torch")
    for probs in (scipy.sparse.coo_array(np.array([0.5, 0.5])), torch.eye(4).to_sparse_csc()):
        with pytest.raises(InputError, match="probs"):
            nacp.calibrate(probs, [0, 1, 2, 3], noise=0.2)
    with pytest.raises(InputError, match="rows of different lengths"):
        nacp.calibrate([[0.5, 0.5], [1.0]], [0, 1], noise={"a": 0.1}, noise_groups=["a", "a"])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_scores_may_be_infinite():
    scores = RNG.normal(size=(200, 3))
    scores[0, 2] = np.inf
    labels = np.arange(200) % 3
    cal = nacp.calibrate(scores, labels, noise=0.2, score="precomputed", guarantee="none")
    assert np.isfinite(cal.threshold)


def test_more_points_than_sums_of_weights_allow_are_refused(monkeypatch):
    monkeypatch.setattr("nacp.coverage.tally.MOST_POINTS", 20)
    noise = nacp.MatrixNoise([[0.8, 0.2], [0.1, 0.9]])
    with pytest.raises(InputError, match="at most 20 points"):
        nacp.calibrate([[0.5, 0.5]] * 30, [0, 1] * 15, noise=noise, guarantee="none")


def test_labels_of_a_table_in_another_order_are_refused():
    pandas = pytest.importorskip("pandas")
    probs, labels = pandas.DataFrame(RNG.dirichlet(np.ones(4), 300)), pandas.Series(RNG.integers(4, size=300))
    shuffled = labels.sample(frac=1, random_state=0)
    cal = nacp.calibrate(probs, labels, noise=0.2, guarantee="none")
    ways = [
        lambda: nacp.calibrate(probs, shuffled, noise=0.2),
        lambda: nacp.compare(probs, shuffled, noise=0.2),
        lambda: nacp.diagnose(cal, probs, shuffled),
        lambda: nacp.Calibrator(noise=0.2).update(probs, shuffled),
    ]
    for way in ways:
        with pytest.raises(InputError, match="labels has the index of probs in another order"):
            way()


def test_one_input_may_be_a_row_of_a_matrix():
    pandas = pytest.importorskip("pandas")
    probs = RNG.dirichlet(np.ones(4), 300)
    cal = nacp.calibrate(probs, RNG.integers(4, size=300), noise=None)
    expected = cal.predict_set(probs[:1])[0]
    assert cal.predictor()(probs[0]) == cal.predictor()(probs[:1]) == expected
    assert cal.predictor()(pandas.DataFrame(probs[:1])) == expected


def test_a_label_that_is_no_class_is_placed_and_the_nearest_class_is_named():
    names = ["Glass", "Water", "Fire"]
    with pytest.raises(InputError, match=r"'Gläss', .*did you mean 'Glass'.*first in row 2"):
        nacp.calibrate(np.eye(3), ["Fire", "Water", "Gläss"], noise=0.1, classes=names)
