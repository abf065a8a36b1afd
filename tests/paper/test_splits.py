"""Many splits at once give what calibrate and evaluate give on each split, bit for bit."""

import numpy as np
import pytest

import nacp
from nacp.paper import splits, twins
from nacp.paper.methods import Method, our_methods, six_methods

pytestmark = pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")


def assert_splits(
    probs, labels, noise, *, score, alpha=0.1, calibration=None, noisy_labels=None, seed=0, **options
):
    """Compare each split with a calibration and an evaluation of its own."""
    drawing = {"calibration": calibration, "noisy_labels": noisy_labels, "random_state": seed}
    found = splits.run_splits(probs, labels, noise=noise, alpha=alpha, score=score, **drawing, **options)
    size = calibration or len(labels) // 2
    for split in range(found.sizes.shape[-1]):
        drawn_from = noise if noisy_labels is None else None
        chosen, drawn = splits.draw_split(labels, probs.shape[1], drawn_from, size, seed, split)
        assert chosen.sum() == size
        noisy = drawn if noisy_labels is None else noisy_labels
        for m, method in enumerate(found.methods):
            cal = nacp.calibrate(
                probs[chosen],
                (labels if method.sees_clean else noisy)[chosen],
                noise=noise if method.noise_aware else None,
                alpha=alpha,
                score=score,
                guarantee=method.guarantee,
                random_state=split,
            )
            result = nacp.evaluate(cal.predict_set(probs[~chosen]), labels[~chosen])
            assert found.thresholds[m, split] == cal.threshold
            assert found.corrections[m, split] == method.correction(cal.correction, cal.estimate, alpha)
            assert found.coverages[m, split] == result.coverage
            assert found.sizes[m, split] == pytest.approx(result.mean_size, rel=1e-15)


SCORES = [nacp.HPS(), nacp.RAPS(), nacp.APS(randomized=False), nacp.TopK()]


@pytest.mark.parametrize("alpha", [0.1, 0.25])
@pytest.mark.parametrize("score", SCORES, ids=["hps", "raps", "aps-det", "topk"])
@pytest.mark.parametrize(("twin", "n"), [("cifar10", 1500), ("imagenet-resnet18", 300)])
def test_each_split_is_a_calibration(twin, n, score, alpha):
    probs, labels = twins.simulate(twin, n=n, random_state=3)
    assert_splits(probs, labels, nacp.UniformNoise(0.2), score=score, alpha=alpha, splits=3, seed=5)


@pytest.mark.parametrize("score", ["hps", "raps"])
@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_guarantees_that_do_more_than_cross_give_what_calibrate_gives(score, rate):
    probs, labels = twins.simulate("cifar100", n=1000, random_state=3)
    noise, methods = nacp.UniformNoise(rate), our_methods(0.05)
    assert_splits(probs, labels, noise, score=score, methods=methods, splits=2, alpha=0.2)


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
    options = {"methods": six_methods(10), "splits": 3}
    assert_splits(probs, labels, noise, score=score, noisy_labels=fixed, calibration=500, **options)


def test_sums_that_exceed_what_float32_holds_are_exact():
    sizes = np.full((2, 1), (1 << 24) - 1)
    masks = np.ones((1, 2), dtype=bool)
    assert splits._product(masks, sizes, 1 << 24).tolist() == [[(1 << 25) - 2]]


def test_noise_is_drawn_anew_for_each_split():
    labels = np.zeros(2000, dtype=int)
    first, second, again = (
        splits.draw_split(labels, 10, nacp.UniformNoise(0.5), 1000, 0, split) for split in (0, 1, 1)
    )
    assert any(np.any(a != b) for a, b in zip(first, second, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(second, again, strict=True))


def test_splits_refuse_what_calibrate_refuses():
    probs, labels = twins.simulate("cifar10", n=1000, random_state=0)
    uniform, swaps = [Method("binomial", False, True, nacp.Binomial())], nacp.GroupNoise([0, 1] * 5, 0.2)
    with pytest.raises(nacp.InputError, match=r'methods hold "binomial", which holds for uniform noise only'):
        splits.run_splits(probs, labels, noise=swaps, methods=uniform, splits=2)
    with pytest.raises(nacp.InputError, match="noise must be known exactly"):
        splits.run_splits(probs, labels, noise=nacp.UniformNoise(0.2, interval=(0.15, 0.25)), splits=2)
    with pytest.raises(nacp.InputError, match=r"noise .*100.*10"):
        splits.run_splits(probs, labels, noise=nacp.noise_from_privacy(5.0, k=100), splits=2)
    with pytest.raises(nacp.InputError, match="calibration must leave points for testing"):
        splits.run_splits(probs, labels, noise=0.2, calibration=1000)
    with pytest.raises(nacp.InputError, match=r"noisy_labels must have the shape \(1000,\).*found \(50,\)"):
        splits.run_splits(probs, labels, noise=0.2, noisy_labels=labels[:50])
