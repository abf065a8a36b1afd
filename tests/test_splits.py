"""The split engine gives what calibrate and evaluate give on each split, bit for bit."""

import warnings

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.paper import splits, splitting, twins
from nacp.paper.methods import aware, cost, our_methods, six_methods
from nacp.tuning import tuned


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("crossing", ["first", "last"])
@pytest.mark.parametrize(
    "score",
    [nacp.HPS(), nacp.APS(), nacp.RAPS(), nacp.APS(randomized=False), nacp.TopK()],
    ids=["hps", "aps", "raps", "aps-det", "topk"],
)
@pytest.mark.parametrize(("twin", "n"), [("cifar10", 1500), ("cifar100", 1200)])
def test_each_split_is_a_calibration(twin, n, score, crossing):
    probs, labels = twins.simulate(twin, n=n, random_state=3)
    k, noise, alphas = probs.shape[1], nacp.UniformNoise(0.2), [0.1, 0.25]
    found = splits.run_splits(
        probs, labels, noise=noise, alpha=alphas, score=score, splits=6, crossing=crossing, random_state=5
    )
    for split in range(6):
        chosen, noisy = splits.draw_split(labels, k, noise, n // 2, 5, split)
        for m, method in enumerate(six_methods(k)):
            cals = nacp.calibrate(
                probs[chosen],
                (labels if method.sees_clean else noisy)[chosen],
                noise=noise if method.noise_aware else None,
                alpha=alphas,
                score=score,
                guarantee=method.guarantee,
                crossing=crossing,
            )
            for a, cal in enumerate(cals):
                result = nacp.evaluate(cal.predict_set(probs[~chosen]), labels[~chosen])
                assert found.thresholds[m, a, split] == cal.threshold
                assert found.corrections[m, a, split] == cal.correction
                assert found.coverages[m, a, split] == result.coverage
                assert found.sizes[m, a, split] == pytest.approx(result.mean_size, rel=1e-15)


@pytest.mark.parametrize("score", ["hps", "raps"])
@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_guarantees_that_do_more_than_cross_take_the_route_of_calibrate(score, rate):
    probs, labels = twins.simulate("cifar100", n=1000, random_state=3)
    noise, methods = nacp.UniformNoise(rate), our_methods(0.05)
    found = splits.run_splits(probs, labels, noise=noise, score=score, methods=methods, splits=3, alpha=0.2)
    for split in range(3):
        chosen, noisy = splits.draw_split(labels, 100, noise, 500, 0, split)
        for m, method in enumerate(methods):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
                cal = nacp.calibrate(
                    probs[chosen], noisy[chosen], noise=noise, alpha=0.2, score=score,
                    guarantee=method.guarantee, random_state=split,
                )  # fmt: skip
            result = nacp.evaluate(cal.predict_set(probs[~chosen]), labels[~chosen])
            assert found.thresholds[m, 0, split] == cal.threshold
            assert found.corrections[m, 0, split] == cost(cal)
            assert found.coverages[m, 0, split] == result.coverage
            assert found.sizes[m, 0, split] == pytest.approx(result.mean_size, rel=1e-15)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("given", [False, True], ids=["drawn", "given"])
@pytest.mark.parametrize(
    "noise",
    [
        nacp.GroupNoise.other(np.arange(10) // 2, 0.2),
        nacp.MatrixNoise(0.7 * np.eye(10) + 0.3 * np.eye(10)[::-1]),
    ],
    ids=["pairs", "matrix"],
)
def test_other_noise_takes_the_route_of_calibrate(noise, given, score):
    """Also with labels that were given once for all splits."""
    probs, labels = twins.simulate("cifar10", n=1200, random_state=3)
    fixed = noise.sample(labels, 10, random_state=8) if given else None
    methods = six_methods(10)[:-1]  # NACP's promise is for uniform noise
    found = splits.run_splits(
        probs,
        labels,
        noise=noise,
        score=score,
        methods=methods,
        splits=4,
        noisy_labels=fixed,
        calibration=500,
    )
    for split in range(4):
        chosen, noisy = splits.draw_split(labels, 10, noise, 500, 0, split)
        assert chosen.sum() == 500
        for m, method in enumerate(methods):
            cal = nacp.calibrate(
                probs[chosen],
                (labels if method.sees_clean else noisy if fixed is None else fixed)[chosen],
                noise=noise if method.noise_aware else None,
                score=score,
                guarantee=method.guarantee,
            )
            result = nacp.evaluate(cal.predict_set(probs[~chosen]), labels[~chosen])
            assert found.thresholds[m, 0, split] == cal.threshold
            assert found.coverages[m, 0, split] == result.coverage
            assert found.sizes[m, 0, split] == pytest.approx(result.mean_size, rel=1e-15)


def test_a_threshold_outside_of_what_was_prepared_is_found_all_the_same():
    """Windows of no width leave every split to pairs that are collected when they are needed."""
    probs, labels = twins.simulate("cifar10", n=1000, random_state=4)
    usual = splits.run_splits(probs, labels, noise=0.3, splits=5)
    with tuned(split_errors=0.0):
        direct = splits.run_splits(probs, labels, noise=0.3, splits=5)
    np.testing.assert_array_equal(direct.thresholds, usual.thresholds)
    np.testing.assert_array_equal(direct.sizes, usual.sizes)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("crossing", ["first", "last"])
@pytest.mark.parametrize(
    "score", [nacp.HPS(), nacp.APS(), nacp.APS(randomized=False), nacp.TopK()], ids=lambda score: repr(score)
)
def test_splits_done_at_once_are_those_done_one_by_one(score, crossing, monkeypatch):
    """The compiled engine does nearly all splits, and each as it is done alone; also with few pairs known."""
    pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    probs, labels = twins.simulate("cifar100", n=1500, random_state=3)
    ran = {"noise": 0.3, "score": score, "splits": 70, "crossing": crossing, "alpha": [0.05, 0.2]}
    alone = []
    one_by_one = splitting.Runner._crossings
    monkeypatch.setattr(
        splitting.Runner, "_crossings", lambda *given: (alone.append(1), one_by_one(*given))[1]
    )
    found = {}
    for name in ("numpy", "native"):
        for errors in (5.0, 0.5):
            with engine.using(name), tuned(split_errors=errors):
                found[name, errors] = splits.run_splits(probs, labels, **ran), len(alone)
            alone.clear()
    assert found["numpy", 5.0][1] == found["numpy", 0.5][1] == 70
    assert found["native", 5.0][1] < 7
    first, _ = found["numpy", 5.0]
    for other, _ in found.values():
        for name in ("thresholds", "sizes", "coverages", "corrections"):
            assert getattr(first, name).tobytes() == getattr(other, name).tobytes()


@pytest.mark.parametrize("k", [5000, 65_535, 65_536])
def test_splits_of_many_classes_are_the_same_by_both_engines(k):
    """Few sums of so many fit into 16 bits, or none."""
    pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    probs = np.random.default_rng(0).random((20, k))
    probs /= probs.sum(axis=1, keepdims=True)
    found = []
    for name in ("numpy", "native"):
        with engine.using(name):
            ran = {"noise": 0.2, "splits": 3, "alpha": 0.4, "methods": six_methods(k)[:3]}
            found.append(splits.run_splits(probs, probs.argmax(axis=1), **ran))
    assert found[0].thresholds.tobytes() == found[1].thresholds.tobytes()
    assert found[0].sizes.tobytes() == found[1].sizes.tobytes()


@pytest.mark.parametrize("given", [False, True])
def test_splits_are_drawn_by_numpy_if_the_engine_draws_others(given, monkeypatch):
    """As with a version of NumPy whose generators give other numbers."""
    probs, labels = twins.simulate("cifar10", n=300, random_state=3)
    noisy = nacp.UniformNoise(0.3).sample(labels, 10, random_state=0) if given else None
    usual = splits.run_splits(probs, labels, noise=0.3, splits=5, noisy_labels=noisy)

    def others(states, labels, k, calibration, rate):
        masks = np.arange(300) < np.full((len(states), 1), calibration)
        return masks, None if rate is None else np.tile(labels, (len(states), 1))

    monkeypatch.setattr(engine, "split_draws", others)
    found = splits.run_splits(probs, labels, noise=0.3, splits=5, noisy_labels=noisy)
    np.testing.assert_array_equal(found.thresholds, usual.thresholds)


def test_the_noise_is_drawn_anew_for_each_split():
    labels = np.zeros(2000, dtype=int)
    drawn = [splits.draw_split(labels, 10, nacp.UniformNoise(0.5), 1000, 0, s) for s in range(2)]
    assert any(np.any(a != b) for a, b in zip(*drawn, strict=True))
    again = splits.draw_split(labels, 10, nacp.UniformNoise(0.5), 1000, 0, 1)
    assert all(np.array_equal(a, b) for a, b in zip(again, drawn[1], strict=True))


def test_bad_splits_are_refused():
    probs, labels = twins.simulate("cifar10", n=100)
    with pytest.raises(ValueError, match="calibration must leave points for testing: 1 to 99; found 100"):
        splits.run_splits(probs, labels, noise=0.2, calibration=100)
    with pytest.raises(ValueError, match=r"noisy_labels must have the shape \(100,\).*found \(50,\)"):
        splits.run_splits(probs, labels, noise=0.2, noisy_labels=labels[:50])


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("kind", ["top rows", "own function"])
def test_splits_of_what_is_written_out_are_calibrations(kind):
    probs, labels = twins.simulate("cifar10", n=600, random_state=1)
    order = np.argsort(-probs, axis=1)[:, :8]
    score = nacp.APS() if kind == "top rows" else nacp.Custom(lambda p: -np.log(p + 1e-9))

    def points(rows):
        if kind == "own function":
            return probs[rows]
        return nacp.TopRows(order[rows], np.take_along_axis(probs, order, axis=1)[rows], k=10)

    noise, methods, alphas = nacp.UniformNoise(0.2), [*six_methods(10)[:3], aware(nacp.PAC())], [0.02, 0.1]
    found = splits.run_splits(
        points(slice(None)), labels, noise=noise, alpha=alphas, score=score, methods=methods, splits=3
    )
    for split in range(3):
        chosen, noisy = splits.draw_split(labels, 10, noise, 300, 0, split)
        for m, method in enumerate(methods):
            given = labels if method.sees_clean else noisy
            model = noise if method.noise_aware else None
            cals = nacp.calibrate(
                points(chosen),
                given[chosen],
                noise=model,
                alpha=alphas,
                score=score,
                guarantee=method.guarantee,
                random_state=split,
            )
            assert found.thresholds[m, :, split].tolist() == [cal.threshold for cal in cals]
