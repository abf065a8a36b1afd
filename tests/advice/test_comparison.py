"""Each row of compare() agrees with `calibrate`, `predict_set` and `evaluate`."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import nacp
from nacp.guarantees import GUARANTEES
from nacp.paper import twins
from nacp.wrapping import on_one_line

K, N = 10, 1000
NOISE = nacp.UniformNoise(0.2)


@pytest.fixture(scope="module")
def data():
    probs, labels = twins.simulate("cifar10", n=2 * N, random_state=0)
    return probs, labels, NOISE.sample(labels, K, random_state=1)


@pytest.fixture(scope="module")
def found(data):
    probs, labels, noisy = data
    return nacp.compare(
        probs[:N], noisy[:N], noise=NOISE, alpha=0.05, test_probs=probs[N:], test_labels=labels[N:]
    )


def calibrated(row, probs, noisy, noise=None, clean=None, alpha=0.1):
    """Calibrate alone with the score, the guarantee and the labels of a row."""
    options = {"score": row.score, "guarantee": row.guarantee, "alpha": alpha}
    if GUARANTEES[row.guarantee].delta is not None:
        options["delta"] = 0.05
    if row.labels != "noisy":
        noisy, options["clean"] = None if row.labels == "checked" else noisy, clean
    if row.guarantee == "split" or noise is not None or row.labels == "noisy":
        options["noise"] = None if row.guarantee == "split" else noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
        return nacp.calibrate(probs, noisy, **options)


def test_every_row_is_what_calibrating_alone_gives(data, found):
    probs, labels, noisy = data
    assert len(found.rows) == 3 * len(GUARANTEES)
    for row in found.rows:
        cal = calibrated(row, probs[:N], noisy[:N], NOISE, alpha=0.05)
        result = nacp.evaluate(cal.predict_set(probs[N:]), labels[N:])
        assert row.calibration == cal
        assert np.array_equal(row.calibration.tally.pairs, cal.tally.pairs)
        assert (row.threshold, row.correction, row.promise) == (cal.threshold, cal.correction, cal.promise)
        assert row.reason == cal.obstacle
        assert row.coverage == result.coverage
        assert row.mean_size == pytest.approx(result.mean_size, rel=1e-12)


def test_smallest_kept_promise_first_then_no_promise_then_all_classes(found):
    def group(row):
        if row.reason is not None:
            return 2
        return 1 if row.guarantee in ("none", "split") else 0

    groups = [group(row) for row in found.rows]
    assert groups == sorted(groups)
    assert set(groups) == {0, 1, 2}
    for wanted in (0, 1):
        sizes = [row.mean_size for row in found.rows if group(row) == wanted]
        assert sizes == sorted(sizes)


def test_a_refusal_is_a_row_with_its_reason_and_comes_last(data):
    probs, _, noisy = data
    matrix = NOISE.matrix(K).dense()
    found = nacp.compare(probs[:N], noisy[:N], noise=matrix, scores=["hps"])
    refused = [row for row in found.rows if row.threshold is None]
    assert [row.guarantee for row in refused] == ["binomial"]
    assert found.rows[-1:] == tuple(refused)
    for row in refused:
        assert "holds for uniform noise only" in row.reason
        assert row.mean_size is row.estimate is row.calibration is None


def test_correct_labels_make_split_a_promise_about_the_true_label_and_progress_counts_every_row(data):
    probs, labels, _ = data
    seen, options = [], {"noise": None, "scores": ["hps"], "guarantees": ["split", "none"]}
    found = nacp.compare(probs[:N], labels[:N], progress=lambda *at: seen.append(at), **options)
    assert [row.promises_truth for row in found.rows] == [True, False]
    assert seen == [(1, 2), (2, 2)]


def test_names_of_guarantees_in_capitals_take_the_delta_too(data):
    probs, _, noisy = data
    (row,) = nacp.compare(probs, noisy, noise=0.2, guarantees=["PAC"], scores=["hps"], delta=0.3).rows
    assert "at least 70% of calibration sets" in row.promise


def test_the_table_has_a_line_for_each_row_and_every_sentence_once(data, found):
    lines, sentences = (part.splitlines() for part in on_one_line(found).split("\n\n"))
    said = dict(reversed(sentence.split(": ", 1)) for sentence in sentences)
    for line, row in zip(lines[1:], found.rows, strict=True):
        assert (line.split()[1], line.split()[-1]) == (row.guarantee, f"{row.mean_size:.2f}")
        assert row.guarantee in said[row.reason or row.promise].split(", ")
    assert len(said) == len(sentences)
    probs, labels, noisy = data
    clean = (range(200), ["?", *labels[1:200]])
    told = nacp.compare(probs[:N], noisy[:N], clean=clean, scores=["hps"], guarantees=["pac", "split"])
    assert "pac with hps: labels that could not be decided count as misses: 1" in on_one_line(told)
    assert "by checked" in str(told)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"test_labels": [0]}, "test_labels needs test_probs"),
        ({"scores": []}, "at least one"),
        ({"guarantees": ["most"]}, "guarantee must be one of .*'pac'.*; found 'most'"),
        ({"scores": ["most"]}, "score must be one of .*'hps'.*; found 'most'"),
        ({"alpha": 2}, "alpha must lie"),
        ({"delta": 2}, "delta must lie"),
        ({"random_state": -1}, "random_state must"),
        ({"noise": 2}, r"noise must lie in \[0, 1\); found 2"),
        ({"noise": np.eye(3)}, "noise is for 3 classes, not for 10"),
        ({"test_probs": np.full((4, 3), 1 / 3)}, "test_probs .*3 columns.*10 classes"),
    ],
)
def test_bad_input_is_an_error_not_a_row(data, change, words):
    probs, _, noisy = data
    with pytest.raises(ValueError, match=words):
        nacp.compare(probs[:N], noisy[:N], **({"noise": 0.2, "scores": ["hps"]} | change))


# Checked labels


@pytest.mark.parametrize("noise", [None, NOISE], ids=["no model", "a model"])
def test_with_checked_labels_every_row_is_what_calibrating_alone_gives(data, noise):
    probs, truth, noisy = (part[:N] for part in data)
    rows = np.random.default_rng(3).choice(N, 200, replace=False)
    clean, given = (rows, truth[rows]), {} if noise is None else {"noise": noise}
    found = nacp.compare(probs, noisy, clean=clean, scores=["hps", "aps"], **given)
    kept = [row.labels != "noisy" for row in found.rows if row.promises_truth and row.reason is None]
    assert kept == sorted(kept, reverse=True)
    by_model = [name for name in GUARANTEES if noise is not None or name == "split"]
    assert len(found.rows) == 2 * (len(by_model) + 4)
    for row in found.rows:
        cal = calibrated(row, probs, noisy, noise, clean)
        # The order in which rows are read may change the last bit of a sum.
        assert row.estimate is None or row.labels == "noisy" or row.estimate == pytest.approx(cal.estimate)
        if row.calibration.deviation is not None:
            assert row.calibration.deviation == pytest.approx(cal.deviation, abs=1e-12)
        same = {"estimate": cal.estimate, "deviation": cal.deviation}
        assert replace(row.calibration, **same) == cal
        assert (row.threshold, row.promise, row.reason) == (cal.threshold, cal.promise, cal.obstacle)
        sizes = cal.predict_set(probs).sizes
        assert row.mean_size == pytest.approx(sizes.mean(), rel=1e-12)
        if row.labels == "checked, noisy":
            assert row.checked_estimate == pytest.approx(row.estimate, abs=1e-12)
    said = {name: text for names, text in found.sentences for name in names.replace("), ", ")\n").split("\n")}
    told = {f"{row.guarantee} ({row.labels})": row.promises_truth for row in found.rows}
    assert set(said) == set(told)
    for name, text in said.items():
        assert ("whatever the noise is" in text) == (told[name] and "(noisy)" not in name)
    assert any("if the noise model is right" in text for text in said.values()) == (noise is not None)
    split = next(row for row in found.rows if row.guarantee == "split")
    assert not split.promises_truth
    assert (split.estimate is None) == (noise is None)


@pytest.mark.filterwarnings("ignore::nacp.NoiseModelWarning")  # the rate is overstated: thresholds differ
def test_all_thresholds_are_judged_by_the_checked_labels(data):
    """Where all labels were checked, that is the share of true labels in the sets."""
    probs, truth, noisy = (part[:N] for part in data)
    for row in nacp.compare(probs, noisy, clean=truth, noise=0.5, scores=["hps"]).rows:
        if row.calibration is not None:
            covered = row.calibration.predict_set(probs).contains(truth).mean()
            assert row.checked_estimate == pytest.approx(covered, abs=1e-12)


def test_what_cannot_be_compared_with_checked_labels_is_refused(data):
    probs, truth, noisy = (part[:N] for part in data)
    found = nacp.compare(probs, noisy, clean=truth, scores=["hps"], guarantees=["pac", "nacp"])
    assert found.rows[-1].guarantee == "nacp"
    assert found.rows[-1].reason == "cannot be found from checked labels, and no noise model is given"
    for argument, wrong in {
        "noise": {"clean": None},
        "labels": {"labels": None},
        "crossing": {"crossing": "first"},
        "clean": {"clean": truth[:-1]},
    }.items():
        options = {"labels": noisy, "clean": truth} | wrong
        with pytest.raises(nacp.InputError) as caught:
            nacp.compare(probs, **options)
        assert caught.value.argument == argument


def test_a_plan_chose_the_labels_and_the_rows_are_those_of_calibrating_with_it(data):
    probs, truth, noisy = (part[:N] for part in data)
    plan = nacp.choose_audit(probs, noisy, budget=200, score="aps")
    given = {"clean": (plan.rows, truth[plan.rows]), "audit": plan}
    rows = [row for row in nacp.compare(probs, noisy, **given).rows if row.labels != "noisy"]
    assert {row.guarantee for row in rows} == {"pac", "none"}
    for row in rows:
        cal = nacp.calibrate(probs, noisy, score="aps", guarantee=row.guarantee, **given)
        assert (row.score, row.labels, row.threshold) == (repr(cal.score), "checked, noisy", cal.threshold)
    for wrong in {"scores": ["hps"]}, {"clean": None}:
        with pytest.raises(nacp.InputError, match=r"score must be APS|audit needs clean"):
            nacp.compare(probs, noisy, **{"noise": NOISE} | given | wrong)
