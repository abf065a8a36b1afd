"""How often a stream finds other sets than `calibrate` in memory, on a folder of real classifiers.

``python benchmarks/streams.py FOLDER``: every file, score, noise, guarantee and alpha; prints the cases in
which mean set sizes differ by more than a thousandth, and how many cases there were. "first" crossings are
counted by themselves.
"""

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nacp
from nacp.coverage.questions import SizesQuestion
from nacp.coverage.sample import Sample
from nacp.points import open_points

ALPHAS = [0.01, 0.05, 0.1, 0.2, 0.3]
SCORES: dict[str, Any] = {
    "hps": "hps", "aps": "aps", "aps, not randomised": nacp.APS(randomized=False), "raps": "raps",
    "raps, not randomised": nacp.RAPS(randomized=False), "saps": "saps", "margin": "margin",
}  # fmt: skip
GUARANTEES: list[Any] = ["none", "nacp", "expected", "binomial", "acnl", "crcp", nacp.Expected("worst-case")]


class Case(NamedTuple):
    """One calibration, in memory and from a stream."""

    name: str
    crossing: str
    exact: nacp.Calibration
    found: nacp.Calibration


def noises(k: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield noise models of k classes: uniform, and a random matrix."""
    for rate in (0.05, 0.2, 0.4, 0.6):
        yield f"uniform {rate:g}", nacp.UniformNoise(rate)
    if k <= 200:
        rng = np.random.default_rng(seed)
        wrong = rng.uniform(0.05, 0.35, k)
        yield (
            "a matrix",
            nacp.MatrixNoise(np.diag(1 - wrong) + wrong[:, None] * rng.dirichlet(np.full(k, 0.3), k)),
        )


def calibrations(probs: Any, noisy: Any, noise: Any, score: Any) -> Iterator[Case]:
    """Yield what is found under one noise model by one score."""
    stream = nacp.Calibrator(probs.shape[1], noise=noise, score=score)
    stream.update(probs, noisy)
    for guarantee in GUARANTEES:
        for crossing in ("last", "first"):
            options = {"alpha": ALPHAS, "guarantee": guarantee, "crossing": crossing}
            try:
                found = stream.finish(**options)
            except nacp.InputError:
                continue  # not for this noise, or not for first crossings
            exact = nacp.calibrate(probs, noisy, noise=noise, score=score, **options)
            for each in zip(exact, found, strict=True):
                yield Case(f"{guarantee!r}, alpha {each[0].alpha:g}", crossing, *each)


def differences(probs: Any, noisy: Any, score: Any, cases: list[Case]) -> np.ndarray[Any, Any]:
    """Return by which share sets are larger in the stream."""
    rows, numbers, _ = open_points(probs, noisy)
    thresholds = np.array([[each.native_threshold for each in case[2:]] for case in cases])
    sizes = SizesQuestion(np.unique(thresholds), rows.k)
    Sample(rows, numbers, nacp.scores.as_score(score)).read([sizes])
    exact, found = sizes.means(thresholds.T.ravel())[0].reshape(2, -1)
    return np.where(exact == found, 0.0, found / np.maximum(exact, 1e-300) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    every: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for path in sorted(arguments.folder.glob("*.npz")):
        with np.load(path) as data:
            probs, labels = data["probs"], data["labels"]
        for seed in arguments.seeds:
            for name, noise in noises(probs.shape[1], seed):
                noisy = noise.sample(labels, probs.shape[1], seed)
                for score in SCORES:
                    cases = list(calibrations(probs, noisy, noise, SCORES[score]))
                    for case, more in zip(
                        cases, differences(probs, noisy, SCORES[score], cases), strict=True
                    ):
                        every[case.crossing] += 1
                        below[case.crossing] += more < 0
                        if abs(more) > 1e-3:
                            apart[case.crossing] += 1
                            print(
                                f"{path.stem}, {name}, {score}, {case.name}, {case.crossing}: {more:+.2%}",
                                flush=True,
                            )
    for crossing, number in every.items():
        print(
            f"{crossing} crossings: {number:,} cases, {apart[crossing]} apart by more than 0.1%, "
            f"{below[crossing]} with smaller sets than in memory"
        )


if __name__ == "__main__":
    main()
