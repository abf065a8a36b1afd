"""Many random calibration/test splits of the same points; `nacp.paper.splitting` does what they share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array, Bools, Floats, Ints
from nacp.calibrate import ScoreLike
from nacp.checks import check_alphas, check_choice, check_count
from nacp.coverage import RULES, Rule
from nacp.errors import InputError
from nacp.noise import Noise, NoiseLike, UniformFamily, noise_for
from nacp.paper.batches import Batches
from nacp.paper.methods import Method, six_methods
from nacp.paper.splitting import Runner
from nacp.points import check_labels, open_points
from nacp.scores import as_score

_BATCH = 64


@dataclass(frozen=True, eq=False)
class SplitResults:
    """What `run_splits` found; arrays of shape (methods, alphas, splits).

    Attributes
    ----------
    methods : list of Method
    alphas : list of float
    thresholds : array
        On the scale of the score.
    sizes : array
        Mean size of the test sets.
    coverages : array
        Share of test sets that contain the true label.
    corrections : array
        What was added to the target; the excess over it where thresholds are tested.
    """

    methods: list[Method]
    alphas: list[float]
    thresholds: Floats
    sizes: Floats
    coverages: Floats
    corrections: Floats


def draw_split(
    labels: Ints, k: int, noise: Noise | None, calibration: int, seed: int, split: int
) -> tuple[Bools, Ints]:
    """Return which rows calibrate in one split, and the noisy labels drawn for it."""
    rng = np.random.default_rng([seed, split])
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[rng.permutation(len(labels))[:calibration]] = True
    return chosen, labels if noise is None else noise.sample(labels, k, rng)


class Draws:
    """The same for many splits.

    Of uniform noise the engine may draw them, if it draws the first split as NumPy does, whose next version
    may draw otherwise.
    """

    def __init__(self, labels: Ints, k: int, noise: Noise | None, calibration: int, seed: int) -> None:
        self._given = labels, k, noise, calibration, seed
        self._first = draw_split(*self._given, 0)
        self._labels = labels.astype(np.int32)
        self._by_engine = False
        if noise is None or type(noise)._draw is UniformFamily._draw:
            drawn = self._engine_draws(range(1))
            self._by_engine = drawn is not None and all(
                np.array_equal(a, b.reshape(-1)) for a, b in zip(self._first, drawn, strict=True)
            )

    def first(self) -> tuple[Bools, Ints]:
        """Return the first split."""
        return self._first

    def some(self, numbers: range) -> tuple[Bools, Array]:
        """Return which rows calibrate, (splits, rows), and noisy labels; without noise the true ones."""
        if self._by_engine:
            drawn = self._engine_draws(numbers)
            assert drawn is not None
            return drawn
        masks, noisy = zip(*(draw_split(*self._given, number) for number in numbers), strict=True)
        return np.array(masks), self._given[0] if self._given[2] is None else np.array(noisy)

    def _engine_draws(self, numbers: range) -> tuple[Bools, Array] | None:
        labels, k, noise, calibration, seed = self._given
        rate = noise.epsilon(k) if isinstance(noise, UniformFamily) else None
        states = np.array(
            [_words(np.random.PCG64([seed, number]).state) for number in numbers], dtype=np.uint64
        )
        drawn = engine.split_draws(states, self._labels, k, calibration, rate)
        return drawn and (drawn[0], labels if drawn[1] is None else drawn[1])


def _words(state: Mapping[str, Any]) -> list[int]:
    """Return the state and the increment of a PCG64 generator, each as its upper and its lower half."""
    return [half for number in state["state"].values() for half in divmod(number, 1 << 64)]


def run_splits(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike,
    alpha: float | Sequence[float] = 0.1,
    score: ScoreLike = "hps",
    methods: Sequence[Method] | None = None,
    splits: int = 1000,
    calibration: int | None = None,
    noisy_labels: ArrayLike | None = None,
    crossing: Rule = "last",
    random_state: int = 0,
    progress: Callable[[int], object] | None = None,
) -> SplitResults:
    """Calibrate and evaluate methods on many random splits; label noise is drawn anew for each.

    Thresholds, sizes and coverages are those of `calibrate` and `evaluate` on each split.

    Parameters
    ----------
    probs : array of shape (N, k)
        Class probabilities.
    labels : array of shape (N,)
        The true labels.
    noise : float, array of shape (k, k) or noise model
        The noise that corrupts the calibration labels. Splits share most of their work where it is uniform.
    alpha, score, crossing
        As in `calibrate`.
    methods : sequence of Method, optional
        The paper's six by default.
    splits : int, default=1000
        How many.
    calibration : int, optional
        The number of calibration points; half of N by default.
    noisy_labels : array of shape (N,), optional
        The noisy labels of all splits, where there are real ones or they were drawn once.
    random_state : int, default=0
        The same number gives the same splits, whatever else is asked.
    progress : callable, optional
        Called with the number of splits that have been done.

    Returns
    -------
    SplitResults

    Examples
    --------
    >>> from nacp.paper import twins
    >>> from nacp.paper.splits import run_splits
    >>> probs, labels = twins.simulate("cifar10", n=2000)
    >>> found = run_splits(probs, labels, noise=0.2, splits=20)
    >>> found.coverages.shape
    (6, 1, 20)
    >>> bool(abs(found.coverages[2].mean() - 0.9) < 0.02)
    True
    """
    how = as_score(score)
    rows, clean, _ = open_points(probs, labels, probabilities=how.takes_probabilities)
    model = noise_for(noise, rows.k)
    if model is not None and not model.doubt.exact:
        raise InputError("noise", "must be known exactly: it is drawn from", found=repr(model))
    alphas = check_alphas(alpha)
    check_choice("crossing", crossing, RULES)
    n = rows.n // 2 if calibration is None else check_count("calibration", calibration, 1)
    if n >= rows.n:
        raise InputError("calibration", f"must leave points for testing: 1 to {rows.n - 1}", found=f"{n}")
    given = None if noisy_labels is None else check_labels(noisy_labels, rows.n, rows.k, name="noisy_labels")
    chosen_methods = six_methods(rows.k) if methods is None else list(methods)
    for method in chosen_methods:
        reason = method.guarantee.applies(model if method.noise_aware else None, crossing)
        if reason is not None:
            raise InputError("methods", f'hold "{method.name}", which {reason}')

    draws = Draws(clean, rows.k, model if given is None else None, n, random_state)
    mask, noisy = draws.first()
    runner = Runner(rows, clean, how, model, chosen_methods, alphas, crossing, n)
    runner.prepare(mask, noisy if given is None else given)
    batches = Batches(runner)
    shape = (len(chosen_methods), len(alphas), splits)
    out = SplitResults(chosen_methods, alphas, *(np.empty(shape) for _ in range(4)))
    for start in range(0, splits, _BATCH):
        numbers = range(start, min(start + _BATCH, splits))
        masks, noisy = draws.some(numbers)
        for split, found in zip(
            numbers, batches.run(masks, noisy if given is None else given, numbers), strict=True
        ):
            for m, a, correction, q, size, coverage in found:
                out.thresholds[m, a, split] = q + how.offset
                out.sizes[m, a, split] = size
                out.coverages[m, a, split] = coverage
                out.corrections[m, a, split] = correction
            if progress is not None:
                progress(split + 1)
    return out
