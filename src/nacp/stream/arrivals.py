"""Points that come after a calibration: how they are opened, what is known of their labels, their shares."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.calibration import Calibration
from nacp.checks import check_count, check_finite, check_flag, check_fraction
from nacp.coverage.curve import inverse_of, oscillation
from nacp.coverage.tally import Weights
from nacp.engine import Spec
from nacp.errors import InputError
from nacp.files import rebuild, stored_basis
from nacp.groups.result import GroupedCalibration
from nacp.guarantees import Uncorrected
from nacp.noise import NOISES, Noise, NoiseBasis, NoiseLike, Unsaid, basis_of, noise_for
from nacp.points import Rows, check_classes, check_given, open_clean
from nacp.scores import as_score

# In place of the true label of a point: it was not checked; it was, and could not be decided.
NOT_CHECKED, UNDECIDED = -2, -1


class Arrivals(NamedTuple):
    """Points that came.

    Attributes
    ----------
    rows : Rows
        Their probabilities.
    labels : array of shape (n,) or (n, a), or None
        Their noisy labels, if there are any.
    truth : array of shape (n,)
        Their true labels, or why there is none.
    """

    rows: Rows
    labels: Ints | None
    truth: Ints

    @property
    def checked(self) -> int:
        """How many labels were checked."""
        return int(np.count_nonzero(self.truth != NOT_CHECKED))


class Labelling(NamedTuple):
    """How labels to come are wrong.

    Attributes
    ----------
    noise : Noise or None
        The model; None for labels that are right.
    basis : NoiseBasis or None
        What a model that was estimated rests on.
    known : bool
        Whether that much is known. If not, only checked labels are of use.
    """

    noise: Noise | None
    basis: NoiseBasis | None
    known: bool

    @classmethod
    def of(cls, noise: NoiseLike | Unsaid, k: int, calibration: Calibration | None) -> Labelling:
        """Return what is said, or else what a calibration says."""
        if not isinstance(noise, Unsaid):
            return cls(noise_for(noise, k), basis_of(noise), True)
        if calibration is None:
            return cls(None, None, False)
        return cls(calibration.noise, calibration.noise_basis, calibration.checked is None)

    @classmethod
    def from_dict(cls, stored: dict[str, Any], k: int) -> Labelling:
        """Return what `to_dict` returned."""
        noise = None if stored["noise"] is None else rebuild("noise", NOISES, stored["noise"])
        return cls(noise_for(noise, k), stored_basis(stored["basis"]), check_flag("known", stored["known"]))

    def to_dict(self) -> dict[str, Any]:
        """Return it for a file."""
        noise, basis = self.noise, self.basis
        return {
            "noise": None if noise is None else noise.to_dict(),
            "basis": None if basis is None else basis._asdict(),
            "known": self.known,
        }

    def open(self, calibration: Calibration, probs: Any, labels: Any, clean: Any) -> Arrivals:
        """Check points that are to be seen as those of a calibration were."""
        if labels is None and clean is None:
            raise InputError("labels", "or clean must be given: the points' noisy or checked labels")
        if labels is not None and not self.known:
            raise InputError(
                "noise",
                "is not known, and without it labels that were not checked say nothing",
                remedy="pass noise= from the beginning (None for labels that are right), or the checked "
                "labels alone, update(probs, clean=...)",
            )
        rows = calibration.open_rows(probs, least=0)
        k, classes = calibration.k, calibration.classes
        numbers = None if labels is None else check_given(labels, rows.n, k, classes)
        truth = np.full(rows.n, NOT_CHECKED)
        if clean is not None:
            checked, true = open_clean(clean, rows.n, k, classes, least=0)
            truth[checked] = true
        return Arrivals(rows, numbers, truth)


def shares_at(
    values: Array, labels: Ints, parts: Floats, spec: Spec, thresholds: Floats, weights: Weights
) -> Floats:
    """Return for each row ``g = sum over l in the set of W[y, l]``: (rows, thresholds).

    Parameters
    ----------
    values : array of shape (rows, k)
        A block of rows.
    labels, parts : arrays of shape (rows, a)
        The given labels of each row and the part of each, as in `nacp.coverage.sample.Sample`.
    thresholds : array of shape (thresholds,)
        Native thresholds, which need not be on the grid.
    weights : Weights
        W.
    """
    scores = engine.scores(values, spec)
    own = weights.own[labels] * parts
    given = np.take_along_axis(scores, labels % scores.shape[1], axis=1)
    which, table = weights.of(labels, parts)
    found = np.empty((len(scores), len(thresholds)))
    for i, threshold in enumerate(thresholds):
        inside = scores <= threshold
        hits = np.where(given <= threshold, own, 0.0).sum(axis=1)
        if weights.constant is not None:
            found[:, i] = hits + weights.constant * np.count_nonzero(inside, axis=1)
        else:
            assert table is not None
            found[:, i] = hits + weights.unit * np.where(inside, table[which], 0).sum(axis=1)
    return found


class Shares:
    """The share of a point in the estimate at one threshold: at the most, where W is not known exactly.

    For an interval of rates that is the larger one of both ends, as a share is affine in rate / (1 - rate);
    for a radius, ``radius osc_q(x)`` is added, as the mean of shares may be too small by so much.

    Parameters
    ----------
    noise : Noise or None
        The model; None for labels that are right.
    k : int
        The number of classes.

    Attributes
    ----------
    range : tuple of two floats
        The least and the greatest that a share can be.
    """

    def __init__(self, noise: Noise | None, k: int) -> None:
        self._noise, self._radius = noise, 0.0 if noise is None else noise.doubt.radius
        ends = [None] if noise is None else noise.doubt.ends
        self._weights = {
            several: [Weights(inverse_of(end, k, several), several) for end in ends]
            for several in (False, True)
        }
        every = [each.inverse for both in self._weights.values() for each in both]
        lows, highs = zip(*(each.subset_range() for each in every), strict=True)
        more = 0.0 if noise is None else max(noise.doubt.shift(each.inverse) for each in self._weights[False])
        self.range = min(lows), max(highs) + more

    def of(self, rows: Rows, labels: Ints, spec: Spec, threshold: float) -> Floats:
        """Return the share of each row, with one label each or several, at a native threshold."""
        several = labels.ndim == 2
        table, parts = (labels if several else labels[:, None]), None
        if several and self._noise is not None:
            table, parts = self._noise.spread(labels)
        if parts is None:
            parts = (table >= 0) / np.maximum(np.count_nonzero(table >= 0, axis=1, keepdims=True), 1)
        numbers, thresholds = np.maximum(table, 0), np.array([threshold])

        def found(values: Array, where: slice | Ints) -> Floats:
            each = [
                shares_at(values, numbers[where], parts[where], spec, thresholds, weights)
                for weights in self._weights[several]
            ]
            shares: Floats = np.max(each, axis=0)
            if self._radius:
                inverse = self._weights[False][0].inverse
                shares = shares + self._radius * oscillation(engine.scores(values, spec), thresholds, inverse)
            return shares[:, 0]

        return np.concatenate([np.empty(0), *rows.map(found)])


def refuse_groups(name: str, calibration: Any) -> None:
    """Refuse a calibration that has several thresholds."""
    if isinstance(calibration, GroupedCalibration):
        raise InputError(
            name,
            "has a threshold for each group, and one is followed here",
            remedy=f"for groups of rows pass {name}.groups[...], and the points of that group",
        )


def seen_by(start: Calibration, k: Any, score: Any, alpha: Any) -> Calibration:
    """Return how rows are seen by a calibration; refuse another k or score."""
    if not math.isfinite(start.native_threshold):
        raise InputError("start", "has an infinite threshold", remedy="pass a threshold to start from")
    wanted = None if score is None else as_score(score)
    for name, given, own in (("k", k, start.k), ("score", wanted, start.score)):
        if given is not None and given != own:
            raise InputError(name, f"must be {own!r}, as in the calibration at the start", found=repr(given))
    return replace(
        start,
        alpha=start.alpha if alpha is None else check_fraction("alpha", alpha),
        noise=None,
        guarantee=Uncorrected(),
        tally=None,
    )


def seen_without(k: Any, score: Any, alpha: Any, start: Any, given: dict[str, Any]) -> Calibration:
    """Return how rows are to be seen where there is no calibration."""
    if k is None:
        raise InputError("k", "must be given: the number of classes", remedy="or pass start=, a calibration")
    number_of_classes, found = check_count("k", k, 2), as_score("hps" if score is None else score)
    low, high = found.span
    if start is None and not math.isfinite(high):
        raise InputError("start", f"must be given: scores of {found!r} have no greatest value")
    native = high if start is None else float(found.to_native(np.asarray(check_finite("start", start))))
    if not low <= native <= high:
        within = f"{low + found.offset:g} to {high + found.offset:g}"
        raise InputError("start", f"must be a score, from {within}", found=repr(start))
    return Calibration(
        alpha=0.1 if alpha is None else check_fraction("alpha", alpha),
        n=1,
        k=number_of_classes,
        score=found,
        noise=None,
        guarantee=Uncorrected(),
        crossing="last",
        correction=0.0,
        native_threshold=native,
        estimate=0.0,
        classes=check_classes(given["classes"], number_of_classes),
        normalize=check_flag("normalize", given["normalize"] or False),
        from_logits=check_flag("from_logits", given["from_logits"] or False),
    )


def spread_around(calibration: Calibration, alpha: float) -> float | None:
    """Return how much a threshold rises for the coverage to rise by 1, around 1 - alpha, if that is known."""
    if calibration.tally is None or calibration.checked is not None:
        return None
    curve = calibration.curve
    clean = np.maximum.accumulate(curve.clean)
    ends = np.searchsorted(clean, [1 - 1.5 * alpha, 1 - 0.5 * alpha]).clip(max=len(curve) - 1)
    (low, high), (least, most) = curve.thresholds[ends], clean[ends]
    return float((high - low) / (most - least)) if high > low and most > least else None
