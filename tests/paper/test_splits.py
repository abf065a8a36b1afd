"""Many splits at once give what calibrate and evaluate give on each split, bit for bit."""

import warnings

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.coverage import grid
from nacp.coverage.curve import Curve
from nacp.coverage.sample import Sample
from nacp.paper import split_curves, splits, twins
from nacp.paper.methods import aware, cost, our_methods, six_methods
from nacp.points import open_rows
from nacp.scores import as_score


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("crossing", ["first", "last"])
@pytest.mark.parametrize(
    "score",
    [nacp.HPS(), nacp.APS(), nacp.RAPS(), nacp.APS(randomized=False), nacp.TopK()],
    ids=["hps", "aps", "raps", "aps-det", "topk"],
)
@pytest.mark.parametrize(("twin", "n"), [("cifar10", 1500), ("imagenet-resnet18", 600)])
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
def test_guarantees_that_do_more_than_cross_give_what_calibrate_gives(score, rate):
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
def test_other_noise_gives_what_calibrate_gives(noise, given, score):
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


@pytest.mark.parametrize("crossing", ["first", "last"])
@pytest.mark.parametrize("score", ["hps", "aps", "topk"])
def test_what_is_found_does_not_depend_on_the_grid_points_to_start_from(score, crossing):
    """Not even if there is one; nor on how much is computed at once. The whole curve is the reference."""
    probs, labels = twins.simulate("cifar100", n=400, random_state=4)
    rows, how, noise = open_rows(probs), as_score(score), nacp.UniformNoise(0.3)
    rng = np.random.default_rng(0)
    masks, searches, expected = np.zeros((5, 400), dtype=bool), [], []
    targets = np.array([[0.2, 0.85], [0.99, 1.1]])
    for split in range(5):
        masks[split] = rng.random(400) < 0.5
        chosen = np.flatnonzero(masks[split])
        sample = Sample.of(rows.some(chosen), noise.sample(labels, 100, rng)[chosen], how)
        curve = Curve.of(sample, noise)
        expected.append([[curve.crossing(target, crossing) for target in each] for each in targets])
        cells = sample.label_cells[:, 0]
        searches.append(split_curves.Search(split, [0, 1], cells, curve.weights, targets))
    usual = split_curves.first_edges(cells, cells)
    for edges in (usual, np.array([grid.INFINITE]), np.array([3, grid.INFINITE])):
        found = split_curves.crossings(rows, how.spec, masks, searches, edges, crossing)
        assert np.array(found).tolist() == expected


def test_sums_that_exceed_what_float32_holds_are_exact():
    sizes = np.full((2, 1), (1 << 24) - 1)
    masks = np.ones((1, 2), dtype=bool)
    assert split_curves._product(masks, sizes, 1 << 24).tolist() == [[(1 << 25) - 2]]


@pytest.mark.parametrize("score", ["hps", "aps"])
def test_splits_are_the_same_with_every_engine(score):
    pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    probs, labels = twins.simulate("cifar100", n=700, random_state=3)
    found = []
    for name in ("numpy", "native"):
        with engine.using(name):
            found.append(splits.run_splits(probs, labels, noise=0.3, splits=10, score=score))
    for name in ("thresholds", "sizes", "coverages", "corrections"):
        assert getattr(found[0], name).tobytes() == getattr(found[1], name).tobytes()


def test_progress_grows_to_the_number_of_splits():
    probs, labels = twins.simulate("cifar10", n=200)
    told = []
    splits.run_splits(probs, labels, noise=0.2, splits=6, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 6


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
def test_splits_of_other_rows_and_scores_are_calibrations(kind):
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
