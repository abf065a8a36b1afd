"""compare(): all guarantees and scores side by side on one's own data."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp._validation import check_classes, check_flag, check_fraction, check_labels, check_probs, check_test
from nacp.calibration import Calibration, NoValidThresholdWarning, calibrate
from nacp.coverage import Evidence, inverse_for
from nacp.crossing import Rule
from nacp.guarantees import GUARANTEES, Guarantee, SplitConformal, Uncorrected, as_guarantee
from nacp.noise import Noise, as_noise, check_estimate
from nacp.scores import as_score

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
    noise: Any,
    alpha: float = 0.1,
    delta: float | None = None,
    scores: Sequence[Any] = ("hps", "aps", "raps"),
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
    model = as_noise(noise)
    check_fraction("alpha", alpha)
    check_flag("normalize", normalize)
    if test_labels is not None and test_probs is None:
        raise ValueError("test_labels needs test_probs, the probabilities of the same points")
    kinds = [(score if isinstance(score, str) else repr(score), as_score(score)) for score in scores]
    promised = [
        as_guarantee(each, _given_delta(each, delta))
        for each in (GUARANTEES if guarantees is None else guarantees)
    ]
    if not kinds or not promised:
        raise ValueError("scores and guarantees must each hold at least one; found none")
    rows: list[ComparisonRow] = []
    for name, kind in kinds:
        checked = check_probs(
            probs, normalize=normalize, probabilities=kind.takes_probabilities, classes=classes
        )
        check_estimate(noise, checked.k)
        names = check_classes(classes, checked.k)
        given = check_labels(labels, checked.n, checked.k, names)
        evidence = Evidence(checked, given, kind, inverse_for(model, checked.k))
        tested, true = None, None
        if test_probs is not None:
            tested, true = check_test(
                test_probs, test_labels, names, normalize=normalize, probabilities=kind.takes_probabilities,
                k=checked.k,
            )  # fmt: skip
        own: list[ComparisonRow] = []
        for guarantee in promised:
            own.append(
                _row(
                    name, guarantee, model, probs, labels,
                    alpha=alpha, score=kind, classes=names, normalize=normalize, crossing=crossing,
                    random_state=random_state,
                )
            )  # fmt: skip
            if progress is not None:
                progress(len(rows) + len(own), len(kinds) * len(promised))
        at = _thresholds(own)
        _, random, clean = evidence.curve(at)
        coverage = None
        if tested is not None:
            labels_there = np.zeros(tested.n, dtype=np.int64) if true is None else true
            share, random, _ = Evidence(tested, labels_there, kind, inverse_for(None, tested.k)).curve(at)
            coverage = None if true is None else share
        rows += [_measured(row, at, clean, random * checked.k, coverage) for row in own]
    return Comparison(tuple(sorted(rows, key=lambda row: row._place)), float(alpha), checked.n, checked.k)


def _given_delta(guarantee: str | Guarantee, delta: float | None) -> float | None:
    """Return the delta to make a guarantee of a name with; a guarantee object has its own."""
    if isinstance(guarantee, Guarantee):
        return None
    return _DELTA if delta is None else delta


def _row(
    name: str, guarantee: Guarantee, noise: Noise | None, probs: Any, labels: Any, **options: Any
) -> ComparisonRow:
    """Calibrate, or say why not."""
    ignores = isinstance(guarantee, SplitConformal)
    row = ComparisonRow(
        score=name,
        guarantee=guarantee.name,
        promise=guarantee.promise(options["alpha"]),
        promises_truth=not isinstance(guarantee, Uncorrected) and (noise is None or not ignores),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoValidThresholdWarning)  # told in the row
            found: Calibration = calibrate(
                probs, labels, noise=None if ignores else noise, guarantee=guarantee, **options
            )
    except ValueError as refusal:
        return replace(row, reason=str(refusal))
    return replace(
        row,
        promise=found.promise,
        threshold=found.threshold,
        correction=found.correction,
        estimate=None if ignores else found.estimate,
        reason=found.obstacle,
        note=found.note,
        calibration=found,
    )


def _thresholds(rows: Sequence[ComparisonRow]) -> Floats:
    """Return the native thresholds of the rows, ascending."""
    return np.unique([row.calibration.native_threshold for row in rows if row.calibration is not None])


def _measured(
    row: ComparisonRow, at: Floats, clean: Floats, sizes: Floats, coverage: Floats | None
) -> ComparisonRow:
    """Add to a row what was measured at its threshold."""
    if row.calibration is None:
        return row
    place = int(np.searchsorted(at, row.calibration.native_threshold))
    return replace(
        row,
        estimate=float(clean[place]) if row.estimate is None else row.estimate,
        mean_size=float(sizes[place]),
        coverage=None if coverage is None else float(coverage[place]),
    )


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
