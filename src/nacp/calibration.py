"""Calibration: a threshold and what it promises. A value: it holds no rows."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array
from nacp.coverage.agreement import warning_of
from nacp.coverage.contradiction import against, warn_of
from nacp.coverage.counted import Counted
from nacp.coverage.curve import CoverageCurve, Curve, Rule, inverse_of
from nacp.coverage.tally import Sample, Tally, Weights
from nacp.errors import InputError, warn
from nacp.guarantees import Finding, Guarantee, find
from nacp.noise import Noise, NoiseBasis
from nacp.points import Rows, Widths, open_rows
from nacp.points.arrays import is_lazy
from nacp.points.lazy import LazyRows, open_lazy
from nacp.points.tensors import as_given, empty_mask
from nacp.scores import Score
from nacp.sets import PredictionSets, predicted
from nacp.stats.bounds import floor
from nacp.stats.counts import share_of_look
from nacp.wrapping import counted, on_one_line, wrapped

if TYPE_CHECKING:
    from nacp.advice.diagnosis import Diagnosis
    from nacp.audit.plan import AuditPlan
    from nacp.predictor import Predictor


class NoValidThresholdWarning(UserWarning):
    """No threshold keeps the promise with this calibration set, so the sets hold all classes."""


@dataclass(frozen=True)
class Calibration:
    """A threshold and what it promises; made by `calibrate`.

    Attributes
    ----------
    threshold : float
        q: the sets are ``{l : S(x, l) <= q}``. Infinite if no threshold keeps the promise.
    correction : float
        What the guarantee added to the target 1 - alpha; 0 for one that tests thresholds, as "pac" does.
    alpha, score, noise, guarantee, crossing, classes, normalize, from_logits
        As given to `calibrate`.
    n, k : int
        The numbers of calibration points and of classes.
    estimate : float
        The estimated clean coverage at the threshold, F^c-hat, cut off at 0 and 1.
    obstacle : str or None
        Why the threshold is infinite, where it is.
    gap : float
        By how much the promise of "expected" may fall short, estimated; 0 for the others.
    price_of_doubt : float
        How many labels more the sets hold, on average, because the noise is not known exactly.
    note : str or None
        What else should be known about the threshold.
    random_state : int
        The seed by which "pac" shuffled the points.
    deviation : float or None
        The standard deviation of one point's share in the estimate, if the guarantee has a delta; a stream
        does not keep it.
    checked : int or None
        How many labels were checked, if the threshold comes from these.
    planned : int or None
        How many the plan of `choose_audit` wanted to be checked, if there was one.
    look, looks : int, int or None
        Which look at more and more points this is, and of how many of a plan, which share delta.
    noise_basis : NoiseBasis or None
        What a noise model that was estimated rests on: `promise` and `assumptions` say it.
    several : int or None
        How many labels the points have in all, if they have several each.
    widths : Widths or None
        How wide the numbers were: `predict_set` rounds wider ones alike, and refuses narrower ones.
    alphas : int
        How many alphas were calibrated at once.
    warnings : tuple of str
        What the labels say against the noise model: empty if they do not contradict it.
    tally : Tally or None
        What was counted: the curve comes from it. A calibration from a file has none.
    tally_noise : Noise or None
        The noise model that the curve is under: the end of an interval that the threshold comes from.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noise = nacp.UniformNoise(0.2)
    >>> noisy = noise.sample(labels, k=10, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], noisy[:2000], noise=noise, alpha=0.1)
    >>> print(cal)
    Promised (PAC(delta=0.05)): for at least 95% of calibration sets, coverage of
    the true label is at least 90%. Estimated coverage 0.9202, an excess of 0.0202.
    Assumed: calibration and new points come independently from one distribution;
    uniform label noise with rate 0.2, independent of the input given the true
    class.
    Sets {l : S(x, l) <= 0.546875}, S = HPS(), from 2,000 noisy labels of 10
    classes.
    """

    alpha: float
    n: int
    k: int
    score: Score
    noise: Noise | None
    guarantee: Guarantee
    crossing: Rule
    correction: float
    native_threshold: float
    estimate: float
    obstacle: str | None = None
    gap: float = 0.0
    price_of_doubt: float = 0.0
    note: str | None = None
    random_state: int = 0
    classes: tuple[Any, ...] | None = field(default=None, repr=False)
    normalize: bool = False
    from_logits: bool = False
    deviation: float | None = None
    checked: int | None = None
    planned: int | None = None
    look: int = 1
    looks: int | None = None
    noise_basis: NoiseBasis | None = None
    several: int | None = None
    widths: Widths | None = None
    alphas: int = field(default=1, compare=False)
    warnings: tuple[str, ...] = ()
    tally: Tally | None = field(default=None, repr=False, compare=False)
    tally_noise: Noise | None = field(default=None, repr=False, compare=False)

    @property
    def threshold(self) -> float:
        """The threshold q on the scale of the score; `native_threshold` is the same without rounding."""
        return self.native_threshold + self.score.offset

    @property
    def promise(self) -> str:
        """What is guaranteed, in one sentence."""
        if self.checked is not None:
            said = self.guarantee.promise_checked(self.alpha)
        else:
            said = self.guarantee.promise_under(self.noise, self.alpha)
        if self.noise_basis is not None and self.noise_basis.caveat and self.guarantee.promises_truth:
            said += f", {self.noise_basis.caveat}"
        return said

    @property
    def assumptions(self) -> str:
        """What the promise rests on, in words; of several alphas or looks, whether it holds for all."""
        said = ["calibration and new points come independently from one distribution"]
        if self.checked is not None:
            picked = "picked at random"
            if self.planned is not None:
                picked = "picked by the plan of choose_audit"
                if self.planned > self.checked:
                    picked += f", of whose {self.planned:,} the others were left out at random,"
            said.append(f"the {self.checked:,} checked points were {picked} and checked rightly")
            said.append("nothing about how the other labels are wrong")
        elif self.noise is not None:
            independent = "" if self.noise.doubt.radius else ", independent of the input given the true class"
            each = ", for each label of a point, whatever its others are"
            each = "" if self.several in (None, self.n) else each
            said.append(f"{self.noise.describe(self.k)}{independent}{each}")
        if self.noise_basis is not None:
            said.append(self.noise_basis.assumption)
        if self.guarantee.promises_truth:
            said += self._of_looks()
        if self.alphas > 1 and self.guarantee.delta is not None:
            alone = f"each by itself, not all at once (for that, pass delta/{self.alphas})"
            hold = "all at once" if self.guarantee.all_alphas else alone
            said.append(f"the promises for {self.alphas} alphas hold {hold}")
        return "; ".join(said)

    def _of_looks(self) -> list[str]:
        """Return what is assumed of other looks at fewer or more points."""
        if self.looks is not None:
            share = f"{100 * share_of_look(self.look, self.looks):.2g}%"
            return [f"this is look {self.look} of {self.looks}, with {share} of delta: all hold at once"]
        if self.checked is not None:
            planned = "choose_audit(..., looks=) or nacp audit choose --looks plans several looks"
            return [f"no earlier look at fewer checked labels decided to check more ({planned})"]
        if self.look > 1:
            divided = "" if self.guarantee.delta is None else f" (for that, pass delta/{self.look})"
            alone = f"each holds by itself, not all at once{divided}"
            return [f"this is look {self.look} at a growing number of points: {alone}"]
        return []

    @property
    def excess(self) -> float:
        """By how much the estimated coverage at the threshold exceeds 1 - alpha."""
        return self.estimate - (1 - self.alpha)

    @property
    def floor(self) -> float:
        """``z_{1-delta} deviation / sqrt(n)``: the excess of a test that knows the deviation."""
        if self.guarantee.delta is None:
            raise InputError("guarantee", f'"{self.guarantee.name}" has no delta, so there is no floor')
        if self.deviation is None:
            raise InputError("deviation", "is not known from a stream, so there is no floor")
        share = 1.0 if self.looks is None else share_of_look(self.look, self.looks)
        return floor(share * self.guarantee.delta, self.deviation, self.checked or self.n)

    @property
    def tightness(self) -> float:
        """The excess divided by the floor: 1 is as good as it gets; nan if there is none."""
        return self.excess / self.floor if self.floor > 0 else math.nan

    @property
    def curve(self) -> CoverageCurve:
        """The coverage estimates at the points of the grid where scores lie; from the tally.

        That of the true labels is cut off at 0 and 1, as `estimate` is. `coverage_curve` has them at any
        threshold, as they come out, from the calibration points.
        """
        if self.checked is not None:
            raise InputError("clean", "was given: an estimate from checked labels has no curve")
        if self.tally is None:
            raise InputError(
                "tally",
                "is not kept in a file, so a calibration that was loaded has no curve",
                remedy="nacp.coverage_curve(probs, labels, ...) computes it",
            )
        several = self.several is not None
        weights = Weights(inverse_of(self.tally_noise, self.k, several), several)
        curve = Curve(self.tally, self.score.spec, weights, self.tally_noise)
        return curve.public(self.score.offset).cut()

    def diagnose(
        self,
        probs: ArrayLike,
        labels: ArrayLike,
        *,
        clean: Any = None,
        audit: AuditPlan | None = None,
        level: float = 0.05,
    ) -> Diagnosis:
        """Ask whether the noise model can be right; see `nacp.diagnose`."""
        from nacp.advice.diagnosis import GroupedDiagnosis, diagnose

        found = diagnose(self, probs, labels, clean=clean, audit=audit, level=level)
        assert not isinstance(found, GroupedDiagnosis)
        return found

    def open_rows(self, probs: ArrayLike, name: str = "probs", least: int = 1, start: int = 0) -> Rows:
        """Check rows that are to be seen as the calibration points were."""
        return open_rows(probs, name=name, least=least, start=start, **self.row_options)

    @property
    def row_options(self) -> dict[str, Any]:
        """What `open_rows` has to know of the calibration points, to see other rows as these."""
        names = ("normalize", "from_logits", "k", "classes", "widths")
        return {name: getattr(self, name) for name in names} | {
            "probabilities": self.score.takes_probabilities
        }

    def predict_set(self, probs: Any, *, allow_empty: bool = True) -> PredictionSets:
        """Return the prediction sets of new inputs.

        Parameters
        ----------
        probs : array of shape (m, k) or TopRows
            Class probabilities (logits, if the calibration was made from these), from the same classifier,
            and as wide as those that calibrated: wider ones are rounded, and narrower ones refused. Sets of a
            dask array are made where its chunks are.
        allow_empty : bool, default=True
            ``False`` puts the most probable label, and those that are just as probable, into every set that
            would be empty; with a custom score, the labels with the lowest score.

        Returns
        -------
        PredictionSets
        """
        lazy = is_lazy(probs)
        rows: Any = open_lazy(probs, least=0, **self.row_options) if lazy else self.open_rows(probs, least=0)
        return self.sets_of(rows, allow_empty=allow_empty)

    def sets_of(self, rows: Rows | LazyRows, *, allow_empty: bool = True) -> PredictionSets:
        """Return the prediction sets of rows that have been checked."""
        known = {"k": self.k, "classes": self.classes, "alpha": self.alpha}
        thresholds = np.array([[self.native_threshold]])
        return predicted(rows, self.score.spec, thresholds, allow_empty=allow_empty, **known)

    def predict_mask(self, probs: Any, *, allow_empty: bool = True) -> Any:
        """Return the prediction sets of new inputs as a matrix of booleans, where the inputs lie.

        Parameters
        ----------
        probs, allow_empty
            As in `predict_set`.

        Returns
        -------
        array or tensor of bool of shape (m, k)
            Whether each label is in the set of each row: a tensor on the same device for a tensor, which is
            not copied to the host; a dask array, not computed yet, for a dask array; else a NumPy array.

        Examples
        --------
        >>> import nacp
        >>> cal = nacp.calibrate([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [0, 1], noise=None, alpha=0.5)
        >>> cal.predict_mask([[0.5, 0.5, 0.0]]).tolist()
        [[True, True, False]]
        """
        if is_lazy(probs):
            mask_of = partial(_mask, replace(self, tally=None), allow_empty)
            return probs.map_blocks(mask_of, dtype=bool, meta=np.empty((0, 0), dtype=bool))
        rows = self.open_rows(probs, least=0)
        if not rows.on_device:
            return as_given(np.asarray(self.sets_of(rows, allow_empty=allow_empty)), probs)
        mask, spec = empty_mask(probs), self.score.spec
        for where in rows.slices():
            mask[where] = engine.inside(rows[where], spec, self.native_threshold, allow_empty)
        return mask

    def predictor(self, *, allow_empty: bool = True) -> Predictor:
        """Return a function from the probabilities of one input to its set."""
        from nacp.predictor import Predictor

        return Predictor(self, allow_empty)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration to a JSON file, which is replaced if it exists; `load` reads it."""
        from nacp.files import document_of, write_document

        write_document(path, document_of(self))

    def __str__(self) -> str:
        named = "given" if self.noise is None else "noisy"
        source = f"{counted(self.n, f'{named} label')} of {self.k:,} classes"
        if self.several not in (None, self.n):
            labels, points = counted(self.several, f"{named} label"), counted(self.n, "point")
            source = f"{labels} of {points} in {self.k:,} classes"
        if self.checked is not None:
            source = f"{counted(self.n, 'label')} of {self.k:,} classes, {self.checked:,} of them checked"
        if self.obstacle is not None:
            sets, said = f"Sets of all {self.k:,} classes ({self.obstacle})", ""
        else:
            sets = f"Sets {{l : S(x, l) <= {self.threshold:.6g}}}"
            said = f" Estimated coverage {self.estimate:.4f}, an excess of {self.excess:.4f}."
        if self.gap:
            said += f" The gap is estimated at {self.gap:.2g}."
        if self.price_of_doubt:
            said += f" As the noise is not known exactly, sets are {self.price_of_doubt:.2g} labels larger."
        if self.note:
            said += f" Note: {self.note}."
        warned = "".join(f"Warning: {sentence}.\n" for sentence in self.warnings)
        return wrapped(
            f"{warned}Promised ({self.guarantee!r}): {self.promise}.{said} Assumed: {self.assumptions}.\n"
            f"{sets}, S = {self.score!r}, from {source}."
        )

    def _repr_html_(self) -> str:
        from nacp.show.html import card, told

        return card("Calibration", told(on_one_line(self)))


def _mask(calibration: Calibration, allow_empty: bool, values: Array) -> Array:
    return np.asarray(calibration.predict_set(values, allow_empty=allow_empty))


def calibrations(
    tallies: Counted,
    guarantee: Guarantee,
    noise: Noise | None,
    alphas: Sequence[float],
    crossing: Rule,
    sample: Sample | None = None,
    seed: int = 0,
    **known: Any,
) -> list[Calibration]:
    """Return a calibration for each alpha; `known` holds further fields.

    `sample` holds the points, for a guarantee that reads them again.
    """
    found = find(guarantee, tallies.curve, noise, alphas, crossing, sample, seed)
    if "warnings" not in known:  # groups have those of all points
        issues = against(tallies.lowest(noise), noise, tallies.score.offset, known.get("classes"))
        known["warnings"] = issues + warning_of(sample)
    known = {"random_state": seed, "alphas": len(alphas), "score": tallies.score} | known
    calibrated = []
    for alpha, (finding, curve, price_of_doubt) in zip(alphas, found, strict=True):
        counts = {"n": curve.tally.n, "k": curve.tally.k, "tally": curve.tally, "tally_noise": curve.noise}
        more = {**counts, "price_of_doubt": price_of_doubt, **known}
        calibrated.append(calibration_of(guarantee, noise, alpha, crossing, finding, **more))
    return calibrated


def calibration_of(
    guarantee: Guarantee, noise: Noise | None, alpha: float, crossing: Rule, finding: Finding, **known: Any
) -> Calibration:
    """Return the finding for one alpha as a calibration; `known` holds further fields."""
    return Calibration(
        alpha=alpha,
        noise=noise,
        guarantee=guarantee,
        crossing=crossing,
        correction=finding.correction,
        native_threshold=finding.threshold,
        estimate=min(max(finding.estimate, 0.0), 1.0),
        obstacle=finding.obstacle,
        gap=finding.gap,
        note=finding.note,
        deviation=finding.deviation,
        **known,
    )


def warn_of_obstacles(found: Sequence[Calibration]) -> None:
    """Warn if no threshold keeps a promise, and if the labels contradict the noise model."""
    for cal in found:
        if cal.obstacle is not None:
            warn(
                f"no threshold keeps the promise, so the sets hold all {cal.k:,} classes: {cal.obstacle}",
                NoValidThresholdWarning,
            )
    warn_of(found[0].warnings)


def seen(sample: Sample) -> dict[str, Any]:
    """Return the fields of a calibration that describe its points."""
    return {
        "widths": sample.rows.widths,
        "from_logits": sample.rows.logits,
        "several": sample.given if sample.several else None,
    }
