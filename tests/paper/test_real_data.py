"""Real classifiers with real noisy labels, read from NACP_BENCHMARK_DATA where it is set."""

import os
from pathlib import Path

import numpy as np
import pytest

import nacp

FOLDER = os.environ.get("NACP_BENCHMARK_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="NACP_BENCHMARK_DATA is not set")

DETERMINISTIC = {"hps": nacp.HPS(), "aps": nacp.APS(randomized=False), "raps": nacp.RAPS(randomized=False)}

# The mean size of oracle sets at 90% that the data came with: HPS, APS and RAPS, computed by others.
PUBLISHED_SIZES = {
    "cifar10": (0.94, 3.71, 3.27),
    "cifar10n": (1.56, 4.13, 3.65),
    "cifar100": (2.92, 25.1, 6.76),
    "cifar100n": (2.16, 26.7, 6.44),
    "tinyimagenet": (8.52, 57.1, 10.1),
    "imagenet": (2.29, 258, 7.93),
}


def read(name):
    return np.load(Path(FOLDER) / f"{name}.npz")


@pytest.mark.parametrize("name", PUBLISHED_SIZES)
def test_oracle_sizes_are_the_published_ones(name):
    """Up to their digits, and to the errors of the threshold and of the mean on half of the data."""
    data = read(name)
    probs, labels = data["probs"], data["labels"]
    half = len(probs) / 2
    for score, published in zip(DETERMINISTIC.values(), PUBLISHED_SIZES[name], strict=True):
        found = nacp.calibrate(probs, labels, noise=None, alpha=[0.09, 0.1, 0.11], score=score)
        more, sizes, less = (cal.predict_set(probs).sizes for cal in found)
        slope = (more.mean() - less.mean()) / 0.02
        error = np.sqrt(sizes.var() / half + slope**2 * 0.09 / half)
        digits = 10.0 ** -(3 - len(str(int(published)))) / 2
        assert abs(sizes.mean() - published) < 4 * error + digits


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "tinyimagenet", "imagenet"])
@pytest.mark.parametrize("score", ["hps", "aps", "raps"])
def test_methods_relate_as_in_the_paper(name, score):
    """Noisy-CP returns about half of the classes, NR-CP what the oracle does, NACP a little more."""
    data = read(name)
    probs, clean = data["probs"], data["labels"].astype(int)
    n, k = len(probs) // 2, probs.shape[1]
    shuffled = np.random.default_rng(0).permutation(len(probs))
    cal, test = shuffled[:n], shuffled[n:]
    noisy = nacp.UniformNoise(0.2).sample(clean, k, random_state=1)

    def run(labels, **choices):
        found = nacp.calibrate(probs[cal], labels[cal], alpha=0.1, score=score, **choices)
        return nacp.evaluate(found.predict_set(probs[test]), clean[test])

    oracle, noisy_cp = run(clean, noise=None), run(noisy, noise=None)
    nrcp, aware = run(noisy, noise=0.2, guarantee="none"), run(noisy, noise=0.2)
    # sd(g)^2 = (1 - alpha)(alpha + eps/(1 - eps)) bounds the estimate's error, alpha(1 - alpha) the test's.
    error = np.sqrt(0.9 * (0.1 + 0.25) / n + 0.09 / len(test))
    assert abs(nrcp.coverage - 0.9) < 4 * error
    assert aware.coverage > 0.9 - 4 * error
    # Noisy-CP: k (0.9 - 0.8 F^c)/0.2, with the standard error k sqrt(0.09/n)/0.2.
    expected = k * (0.9 - 0.8 * noisy_cp.coverage) / 0.2
    assert abs(noisy_cp.mean_size - expected) < 4 * k * np.sqrt(0.09 / n + 0.16 / len(test)) / 0.2
    assert oracle.mean_size < aware.mean_size < noisy_cp.mean_size


@pytest.mark.parametrize("name", PUBLISHED_SIZES)
@pytest.mark.parametrize("score", ["hps", "aps", "raps", nacp.APS(randomized=False)], ids=str)
def test_pac_sets_are_no_larger_than_nacp_sets(name, score):
    data = read(name)
    probs, clean = data["probs"], data["labels"].astype(int)
    noisy = nacp.UniformNoise(0.2).sample(clean, probs.shape[1], random_state=3)
    sizes = {}
    for guarantee in ("pac", "nacp"):
        cal = nacp.calibrate(probs[::2], noisy[::2], noise=0.2, score=score, guarantee=guarantee, delta=0.001)
        sizes[guarantee] = cal.predict_set(probs[1::2]).sizes.mean()
    assert sizes["pac"] <= sizes["nacp"]


@pytest.mark.filterwarnings("ignore::nacp.NoiseModelWarning")  # of the noisiest ones, and rightly
@pytest.mark.parametrize("kind", ["aggre", "random1", "worse"])
def test_human_noise_by_its_matrix_recovers_most_of_the_size(kind):
    """CIFAR-10N: real annotators. Their noise depends on the image, so coverage is only near the target."""
    data = read("cifar10n")
    probs, clean, noisy = data["probs"], data["labels"].astype(int), data[f"noisy_labels_{kind}"]
    noise = nacp.MatrixNoise(data[f"noise_matrix_{kind}"])

    def size(labels, noise, guarantee=None):
        cal = nacp.calibrate(probs[::2], labels[::2], noise=noise, guarantee=guarantee)
        return nacp.evaluate(cal.predict_set(probs[1::2]), clean[1::2]).mean_size

    oracle, ignorant = size(clean, None), size(noisy, None)
    aware = size(noisy, noise, "none")
    assert abs(aware - oracle) < 0.5 * (ignorant - oracle)
