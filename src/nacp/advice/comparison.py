"""compare(): all guarantees and scores side by side on one's own data."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp.calibrate import ScoreLike, calibrations, informative_noise
from nacp.calibration import Calibration
from nacp.checks import check_count, check_flag, check_fraction
from nacp.coverage import Rule, Sample, Talk, together
from nacp.errors import InputError
from nacp.guarantees import GUARANTEES, Guarantee, as_guarantee, coverage_under
from nacp.noise import Noise, NoiseBasis, NoiseLike, basis_of
from nacp.points import Rows, open_points, open_test
from nacp.scores import Score, as_score

_DELTA = 0.05


@dataclass(frozen=True)
class ComparisonRow:
    """One score with one guarantee: what came out.

    Attributes
    ----------
    score, guarantee : str
        Their names. The guarantee "split" ignores the noise: it takes the labels as they are.
    promise : str
        What is promised, in one sentence.
    promises_truth : bool
        Whether that is about the true label; "none" promises nothing, and "split" is about the given label.
    threshold : float or None
        Infinite if no threshold keeps the promise; None if the guarantee was refused, as are the next four.
    correction : float or None
        What the guarantee added to the target.
    estimate : float or None
        The estimated coverage of the true label at the threshold, by the noise model, at the less favourable
        end of an interval. It is also given for "split", which does not know of the noise.
    mean_size : float or None
        The mean size of the sets of the test points, or of the calibration points if there are none.
    coverage : float or None
        The share of test labels in their sets; None without test labels.
    reason : str or None
        Why the threshold is infinite or the guarantee was refused.
    note : str or None
        What else should be known about the threshold.
    calibration : Calibration or None
        All of it, ready for `Calibration.predict_set`.
    """

    score: str
    guarantee: str
    promise: str
    promises_truth: bool
    threshold: float | None = None
    correction: float | None = None
    estimate: float | None = None
    mean_size: float | None = None
    coverage: float | None = None
    reason: str | None = None
    note: str | None = None
    calibration: Calibration | None = None

    @property
    def _place(self) -> tuple[bool, bool, bool, float]:
        """Where the row stands: promises that are kept first, by size; then the others."""
        size = math.inf if self.mean_size is None else self.mean_size
        return self.threshold is None, self.reason is not None, not self.promises_truth, size


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found; print it for a table.

    Attributes
    ----------
    rows : tuple of ComparisonRow
        Promises about the true label by the size of their sets, the smallest first. After them what promises
        nothing about it, then sets of all classes, then what was refused.
    alpha : float
        As given.
    n, k : int
        The numbers of calibration points and of classes.
    """

    rows: tuple[ComparisonRow, ...]
    alpha: float
    n: int
    k: int

    def __repr__(self) -> str:
        return str(self)

    @property
    def _table(self) -> list[list[str]]:
        """The header and the rows, written out."""
        tested = any(row.coverage is not None for row in self.rows)
        table = [["score", "guarantee", "threshold", "estimate", *["coverage"] * tested, "mean size"]]
        for row in self.rows:
            numbers = [_shown(row.threshold, ".6g"), _shown(row.estimate, ".4f")]
            numbers += [_shown(row.coverage, ".4f")] * tested
            table.append([row.score, row.guarantee, *numbers, _shown(row.mean_size, ".2f")])
        return table

    def __str__(self) -> str:
        table = self._table
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(f"{cell:{'<' if i < 2 else '>'}{widths[i]}}" for i, cell in enumerate(line)).rstrip()
            for line in table
        ]
        return "\n".join([*lines, "", *(f"{name}: {sentence}" for name, sentence in self.sentences)])

    def _repr_html_(self) -> str:
        from nacp.show.html import card, sentence, table

        header, *rows = self._table
        told = [sentence(text, name=name) for name, text in self.sentences]
        return card("Comparison", table(header, rows, left=(0, 1)), *told)

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """What each guarantee promises, or why it does not, and what else should be known: each said once."""
        told: dict[tuple[str, str], None] = {}
        for row in self.rows:
            told[row.guarantee, row.reason or row.promise] = None
        for row in self.rows:
            if row.note is not None:
                told[f"{row.guarantee} with {row.score}", row.note] = None
        return list(told)


def compare(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike,
    alpha: float = 0.1,
    delta: float | None = None,
    scores: Sequence[ScoreLike] = ("hps", "aps", "raps"),
    guarantees: Sequence[str | Guarantee] | None = None,
    test_probs: ArrayLike | None = None,
    test_labels: ArrayLike | None = None,
    classes: Any = None,
    normalize: bool = False,
    crossing: Rule = "last",
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Calibrate with every score and every guarantee, and set what comes out side by side.

    Each promise holds for its own row. The row with the smallest sets is chosen with the same points that it
    was calibrated on, so what it promises may fail more often: with r rows to choose from, up to r delta.
    Choose on other points, or divide delta by r.

    Parameters
    ----------
    probs, labels, noise, alpha, classes, normalize, crossing, random_state
        As in `calibrate`.
    delta : float, optional
        The probability with which a promise may fail; 0.05 for all guarantees by default, so that they can
        be compared. A guarantee object has its own.
    scores : sequence, default=("hps", "aps", "raps")
        Names, score objects or functions, as in `calibrate`.
    guarantees : sequence, optional
        Names or guarantee objects; by default all there are. "split" stands for ignoring the noise.
    test_probs : array of shape (m, k), optional
        Probabilities of other points, whose sets are to be measured instead of those of the calibration
        points.
    test_labels : array of shape (m,), optional
        Their true labels.
    progress : callable, optional
        Called as ``progress(done, total)`` after each combination.

    Returns
    -------
    Comparison

    See Also
    --------
    plan : What each guarantee will cost, before there are data.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> found = nacp.compare(
    ...     probs[:2000], noisy[:2000], noise=0.2, scores=["hps"], guarantees=["pac", "nacp", "split"],
    ...     test_probs=probs[2000:], test_labels=labels[2000:])
    >>> [row.guarantee for row in found.rows]
    ['pac', 'nacp', 'split']
    >>> found.rows[0].mean_size < found.rows[1].mean_size < found.rows[2].mean_size
    True
    """
    check_fraction("alpha", alpha)
    check_flag("normalize", normalize)
    seed = check_count("random_state", random_state)
    if test_labels is not None and test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    named = [(score if isinstance(score, str) else repr(score), as_score(score)) for score in scores]
    wanted = [with_delta(each, delta) for each in (GUARANTEES if guarantees is None else guarantees)]
    if not named or not wanted:
        raise InputError("scores" if not named else "guarantees", "is empty; it must hold at least one")
    opened: dict[bool, tuple[Rows, Ints, tuple[Any, ...] | None]] = {}
    tested: dict[bool, tuple[Rows, Ints | None]] = {}
    for kind in {score.takes_probabilities for _, score in named}:
        options = {"probabilities": kind, "normalize": normalize, "classes": classes}
        opened[kind] = open_points(probs, labels, **options)
        if test_probs is not None:
            tested[kind] = open_test(test_probs, test_labels, k=opened[kind][0].k, **options)
    rows: list[ComparisonRow] = []
    total, done, basis = len(named) * len(wanted), count(1), basis_of(noise)

    def said() -> None:
        if progress is not None:
            progress(next(done), total)

    for name, score in named:
        points, numbers, names = opened[score.takes_probabilities]
        sample = Sample(points, numbers, score)
        noise = informative_noise(noise, points.n, points.k)
        asked = Asked(float(alpha), noise, crossing, seed, names, normalize, basis)
        found = sample.ask(together([compared(name, sample, each, asked, said) for each in wanted]))
        if tested:
            found = _measured(found, *tested[score.takes_probabilities], score)
        rows += found
    return Comparison(tuple(sorted(rows, key=lambda row: row._place)), float(alpha), points.n, points.k)


def with_delta(guarantee: str | Guarantee, delta: float | None = None) -> Guarantee:
    """Return a guarantee of a name with the delta that is common to all, if it takes one."""
    if isinstance(guarantee, Guarantee):
        return guarantee
    takes = guarantee in GUARANTEES and GUARANTEES[guarantee].takes_delta()
    return as_guarantee(guarantee, (_DELTA if delta is None else delta) if takes else None)


class Asked(NamedTuple):
    """What all rows of a comparison have in common."""

    alpha: float
    noise: Noise | None
    crossing: Rule
    seed: int
    classes: tuple[Any, ...] | None
    normalize: bool
    basis: NoiseBasis | None = None


def compared(
    name: str, sample: Sample, guarantee: Guarantee, asked: Asked, said: Callable[[], None] = lambda: None
) -> Talk[ComparisonRow]:
    """Return what a guarantee makes of a sample, or why it does not apply."""
    # "split" stands for ignoring the noise.
    noise = None if guarantee.only_as_given else asked.noise
    row = ComparisonRow(
        score=name,
        guarantee=guarantee.name,
        promise=guarantee.promise(asked.alpha),
        promises_truth=guarantee.promises_truth or (guarantee.only_as_given and asked.noise is None),
    )
    reason = guarantee.applies(noise, asked.crossing)
    if reason is not None:
        said()
        return replace(row, reason=reason)
    (cal,) = yield from calibrations(
        sample, guarantee, noise, [asked.alpha], asked.crossing, asked.seed,
        classes=asked.classes, normalize=asked.normalize, basis=asked.basis if noise is not None else None,
    )  # fmt: skip
    estimates = yield from coverage_under(sample, asked.noise).at(np.array([cal.native_threshold]))
    said()
    return replace(
        row,
        promise=cal.promise,
        threshold=cal.threshold,
        correction=cal.correction,
        estimate=cal.estimate if noise is asked.noise else float(estimates.clean[0]),
        mean_size=float(estimates.random[0]) * sample.k,
        reason=cal.obstacle,
        note=cal.note,
        calibration=cal,
    )


def _measured(
    rows: list[ComparisonRow], points: Rows, truth: Ints | None, score: Score
) -> list[ComparisonRow]:
    """Return the rows with what their thresholds do on test points."""
    done = [row.calibration.native_threshold for row in rows if row.calibration is not None]
    if not done:
        return rows
    labels = np.zeros(points.n, dtype=np.int64) if truth is None else truth
    sample, at = Sample(points, labels, score), np.unique(done)
    share, random, _ = sample.ask(coverage_under(sample, None).at(at))
    place = {q: i for i, q in enumerate(at.tolist())}

    def measured(row: ComparisonRow) -> ComparisonRow:
        if row.calibration is None:
            return row
        i = place[row.calibration.native_threshold]
        coverage = None if truth is None else float(share[i])
        return replace(row, mean_size=float(random[i]) * points.k, coverage=coverage)

    return [measured(row) for row in rows]


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
