"""compare(): all guarantees and scores side by side on one's own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp.advice.compared import (
    NOISY,
    Comparing,
    ComparisonRow,
    compared_all,
    counted_for,
    measured,
    plans_of,
    with_delta,
)
from nacp.audit.checked_calibration import open_checked
from nacp.audit.checked_sample import Audit, CheckedSample
from nacp.audit.plan import guessing_noise
from nacp.calibrate import ScoreLike, informative_noise, noise_is_missing
from nacp.checks import check_count, check_flag, check_fraction
from nacp.coverage.contradiction import warn_of
from nacp.coverage.curve import Rule
from nacp.coverage.sample import Sample
from nacp.errors import InputError
from nacp.guarantees import GUARANTEES, Guarantee
from nacp.noise import UNSAID, NoiseLike, Unsaid, basis_of
from nacp.points import Rows, check_labels, column_names, open_points, open_rows
from nacp.points.lazy import in_memory
from nacp.scores import as_score
from nacp.wrapping import table_lines, wrapped


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found; print it for a table.

    Attributes
    ----------
    rows : tuple of ComparisonRow
        Promises about the true label by the size of their sets, the smallest first; those that rest on
        checked labels before those that rest on a noise model. After them what promises nothing about it,
        then sets of all classes, then what was refused.
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
        audited = self.audited
        header = ["score", "guarantee", *["labels"] * audited, "threshold", "estimate"]
        table = [[*header, *["by checked"] * audited, *["coverage"] * tested, "mean size"]]
        for row in self.rows:
            cells = [row.score, row.guarantee, *[row.labels] * audited, _shown(row.threshold, ".6g")]
            cells += [_shown(row.estimate, ".4f"), *[_shown(row.checked_estimate, ".4f")] * audited]
            table.append([*cells, *[_shown(row.coverage, ".4f")] * tested, _shown(row.mean_size, ".2f")])
        return table

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the labels say against the noise model: that of the first row that it spoils."""
        rows = (row.calibration.warnings for row in self.rows if row.calibration is not None)
        return next((said for said in rows if said), ())

    @property
    def audited(self) -> bool:
        """Whether there are checked labels."""
        return any(row.labels != NOISY or row.checked_estimate is not None for row in self.rows)

    def __str__(self) -> str:
        lines = table_lines(self._table, 2 + self.audited)
        return "\n".join([*lines, "", *(wrapped(f"{name}: {sentence}") for name, sentence in self.sentences)])

    def _repr_html_(self) -> str:
        from nacp.show.html import card, sentence, table

        header, *rows = self._table
        told = [sentence(text, name=name) for name, text in self.sentences]
        return card("Comparison", table(header, rows, left=range(2 + self.audited)), *told)

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """What each guarantee promises, or why it does not, and what else should be known: each said once."""
        told: dict[tuple[str, str], None] = {("Warning", said): None for said in self.warnings}
        for row in self.rows:
            name = f"{row.guarantee} ({row.labels})" if self.audited else row.guarantee
            told[name, row.said(self.audited)] = None
        for row in self.rows:
            if row.note is not None:
                told[f"{row.guarantee} with {row.score}", row.note] = None
        return list(told)


def compare(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike | Unsaid = UNSAID,
    clean: Any = None,
    alpha: float = 0.1,
    delta: float | None = None,
    scores: Sequence[ScoreLike] = ("hps", "aps", "raps"),
    guarantees: Sequence[str | Guarantee] | None = None,
    test_probs: ArrayLike | None = None,
    test_labels: ArrayLike | None = None,
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
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
    probs, labels, noise, alpha, classes, normalize, from_logits, crossing, random_state
        As in `calibrate`.
    clean : array of shape (n,) or pair (rows, labels), optional
        True labels of points that were picked at random and checked, as in `calibrate`. There are rows for
        these, with the noisy labels and alone, and every threshold is also judged by them. `noise` may then
        be left out; rows that come from it assume it.
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

    Warns
    -----
    NoiseModelWarning
        If the labels contradict the noise model.

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
    check_flag("from_logits", from_logits)
    classes = column_names(probs, classes)
    seed = check_count("random_state", random_state)
    if clean is None:
        if isinstance(noise, Unsaid):
            raise noise_is_missing()
    elif labels is None:
        raise InputError("labels", "must be given", remedy="calibrate(probs, None, clean=...) needs none")
    if test_labels is not None and test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    named = [(score if isinstance(score, str) else repr(score), as_score(score)) for score in scores]
    wanted = [with_delta(each, delta) for each in (GUARANTEES if guarantees is None else guarantees)]
    if not named or not wanted:
        raise InputError("scores" if not named else "guarantees", "is empty; it must hold at least one")
    unsaid = isinstance(noise, Unsaid)
    plans = plans_of(
        wanted, crossing, by_model=not unsaid, checked=clean is not None, named=guarantees is not None
    )
    rows: list[ComparisonRow] = []
    total, done, basis = len(named) * len(plans), count(1), basis_of(noise)

    def tell() -> None:
        if progress is not None:
            progress(next(done), total)

    opened: dict[bool, Points] = {}
    for name, score in named:
        kind = score.takes_probabilities
        options = {
            "probabilities": kind,
            "normalize": normalize,
            "from_logits": from_logits,
            "classes": classes,
        }
        if kind not in opened:
            opened[kind] = open_all(probs, labels, clean, test_probs, test_labels, seed, **options)
        points = opened[kind]
        sample = Sample.of(points.rows, points.labels, score)
        known = None if isinstance(noise, Unsaid) else informative_noise(noise, sample.n, sample.k)
        checked = None
        if points.audit is not None:
            guessed = guessing_noise(sample, noise, points.audit.pilot)
            checked = CheckedSample(sample, points.audit, guessed.matrix(sample.k))
        counted = counted_for(sample, known, plans, crossing)
        comparing = Comparing(
            name,
            sample,
            counted,
            float(alpha),
            known,
            crossing,
            seed,
            points.classes,
            normalize,
            basis,
            unsaid,
            checked,
        )
        found = compared_all(comparing, plans, tell)
        rows += measured(found, points.shown(sample), labelled=points.test_labels is not None)
    compared = Comparison(tuple(sorted(rows, key=lambda row: row._place)), float(alpha), sample.n, sample.k)
    warn_of(compared.warnings)
    return compared


class Points(NamedTuple):
    """The points of a comparison and, if there are any, those on which sets are measured."""

    rows: Rows
    labels: Ints
    classes: tuple[Any, ...] | None
    audit: Audit | None
    test_rows: Rows | None
    test_labels: Ints | None

    def shown(self, sample: Sample) -> Sample:
        """Return the points on which sets are measured: those of the test, or the sample itself."""
        if self.test_rows is None:
            return sample
        labels = np.zeros(self.test_rows.n, dtype=np.int64) if self.test_labels is None else self.test_labels
        return Sample.of(self.test_rows, labels, sample.score)


def open_all(
    probs: Any, labels: Any, clean: Any, test_probs: Any, test_labels: Any, seed: int, **options: Any
) -> Points:
    """Check points, of which some labels may have been checked, and test points."""
    in_memory("probs", probs, "here")
    in_memory("test_probs", test_probs, "here")
    audit = tested = truth = None
    if clean is None:
        rows, numbers, names = open_points(probs, labels, **options)
    else:
        rows, numbers, names, audit = open_checked(probs, labels, clean, seed, **options)
    if test_probs is not None:
        tested = open_rows(test_probs, k=rows.k, name="test_probs", **options)
        if test_labels is not None:
            truth = check_labels(test_labels, tested.n, rows.k, names, name="test_labels")
    return Points(rows, numbers, names, audit, tested, truth)


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
