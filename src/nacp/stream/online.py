"""OnlineCalibrator: a threshold that follows drifting data, from noisy or checked labels."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Bools, Floats, Ints
from nacp.calibration import Calibration
from nacp.checks import check_count, check_finite, check_fraction, check_rate
from nacp.coverage.curve import inverse_of
from nacp.coverage.tally import Weights
from nacp.errors import InputError
from nacp.files import calibration_of, document_of, read_document, reading, write_document
from nacp.guarantees.base import percent
from nacp.noise import UNSAID, Noise, NoiseLike, Unsaid
from nacp.scores import ScoreLike
from nacp.sets import PredictionSets
from nacp.stream.arrivals import (
    NOT_CHECKED,
    Labelling,
    refuse_groups,
    seen_by,
    seen_without,
    spread_around,
)
from nacp.wrapping import counted, wrapped

_FORMAT, _VERSION = "nacp.online", 1
# By default a threshold remembers about so many points that have no noise, if a calibration tells how scores
# spread; and else a step is at most this part of the span of all scores.
_MEMORY, _STEP = 500, 0.01


class OnlineCalibrator:
    """A threshold that is moved after each point, so that the sets cover on average over time.

    After a point with the label y the threshold becomes ``q + rate (1 - alpha - g)``, where g is the sum of
    W[y, l] over the point's set at q: it rises if the set missed, and falls if it did not, by amounts which
    take into account that the label may be wrong. That is a gradient step on a pinball loss that is right on
    average over the noise, the robust pinball loss of [1]_, for any noise matrix. Nothing is assumed about
    how points come about: they may drift, or be chosen by an adversary.

    It keeps the coverage of the true label near 1 - alpha *on average over all points so far*. That is no
    promise for a single point, nor for some stretch of time: see `promise` and `bound`.

    Parameters
    ----------
    k : int, optional
        The number of classes. This and what else a calibration knows is taken from `start`, if that is one.
    noise : float, array of shape (k, k), noise model or None
        How the labels are wrong, known exactly; ``None`` takes them as they are. May be left out if `start`
        says it, or if all labels will be checked ones.
    score : str, score or callable, optional
        As in `calibrate`, by default "hps".
    alpha : float, optional
        The sets are to contain the true class 1 - alpha of the time; by default 0.1.
    rate : float, optional
        How far a threshold moves, in units of the score. A larger one follows faster, and wavers more. By
        default ``d / (500 w**2)``, where w is the width of the range of shares, and d how much the threshold
        rises for the coverage to rise by 1, around 1 - alpha in the calibration at the start: some 500 points
        are remembered, w**2 times as many with noise. Where there is none (or it was loaded, or made from
        checked labels) a hundredth of the span of scores divided by w; where that is infinite, as that of
        RAPS, the rate must be given.
    decay : float, default=0.0
        Point t moves the threshold by ``rate / t**decay``. More than 0, and less than 1, is for data that do
        not drift: the threshold then wavers less and less.
    start : Calibration or float, optional
        The first threshold. By default the highest score that there is: sets hold all classes at first.
    classes, normalize, from_logits
        As in `calibrate`; only if `start` is not a calibration.

    Attributes
    ----------
    threshold : float
        The current threshold, on the scale of the score. Below the lowest score sets are empty, above the
        highest they hold all classes.
    n, checked : int
        How many points there were, and of how many the label was checked.
    coverage : float or None
        The mean share of the points, each in the set that it had: an estimate of the coverage so far.

    See Also
    --------
    Monitor : An alarm that a threshold that stays where it is covers too little.

    References
    ----------
    .. [1] Xi, Liu, Zeng, Sun, Wei (2025), *Exploring the noise robustness of online conformal prediction*,
       arXiv:2501.18363. The theorem and its proof for any matrix: docs/guarantees.md, O1.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=12_000, random_state=0)
    >>> labels[4000::8] = (labels[4000::8] + 1) % 10  # from here on, things are harder
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=10, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], noisy[:2000], noise=0.2, guarantee="none")
    >>> online = nacp.OnlineCalibrator(start=cal)
    >>> hits = []
    >>> for t in range(2000, 12_000, 100):
    ...     hits.extend(online.predict_set(probs[t : t + 100]).contains(labels[t : t + 100]))
    ...     online.update(probs[t : t + 100], noisy[t : t + 100])
    >>> fixed = cal.predict_set(probs[2000:]).contains(labels[2000:])
    >>> bool(abs(np.mean(hits) - 0.9) < 0.02 < 0.9 - fixed.mean())
    True
    """

    def __init__(
        self,
        k: int | None = None,
        *,
        noise: NoiseLike | Unsaid = UNSAID,
        score: ScoreLike | None = None,
        alpha: float | None = None,
        rate: float | None = None,
        decay: float = 0.0,
        start: Calibration | float | None = None,
        classes: Any = None,
        normalize: bool = False,
        from_logits: bool = False,
    ) -> None:
        given = {"classes": classes, "normalize": normalize or None, "from_logits": from_logits or None}
        refuse_groups("start", start)
        if isinstance(start, Calibration):
            told = next((name for name, value in given.items() if value is not None), None)
            if told is not None:
                raise InputError(told, "is that of the calibration at the start", remedy="leave it out")
            seen_as, calibration = seen_by(start, k, score, alpha), start
        else:
            seen_as, calibration = seen_without(k, score, alpha, start, given), None
        spread = None if calibration is None else spread_around(calibration, seen_as.alpha)
        self._prepare(seen_as, Labelling.of(noise, seen_as.k, calibration), rate, decay, spread)

    def _prepare(
        self,
        seen_as: Calibration,
        labelling: Labelling,
        rate: float | None,
        decay: float,
        spread: float | None = None,
    ) -> None:
        noise = labelling.noise
        if noise is not None and not noise.doubt.exact:
            raise InputError(
                "noise",
                "must be known exactly, without an interval or a radius",
                found=repr(noise),
                remedy="pass the careful end, such as nacp.UniformNoise with the smallest rate",
            )
        # How rows are seen; the threshold itself is _q.
        self._seen_as, self._labelling = seen_as, labelling
        self._weights = Weights(inverse_of(noise, seen_as.k))
        self.range = self._weights.inverse.subset_range()
        width, (low, high) = self.range[1] - self.range[0], seen_as.score.span
        if rate is None and spread is not None:
            rate = spread / (_MEMORY * width**2)
        elif rate is None and high - low < np.inf:
            rate = _STEP * (high - low) / width
        elif rate is None:
            raise InputError(
                "rate",
                f"must be given: scores of {seen_as.score!r} have no greatest value",
                remedy="pass about a hundredth of the difference that scores have around the threshold",
            )
        self.rate, self.decay = check_finite("rate", rate), check_rate(decay, "decay")
        if self.rate <= 0:
            raise InputError("rate", "must be more than 0", found=repr(rate))
        self._q, self.n, self.checked, self._total = seen_as.native_threshold, 0, 0, 0.0

    @property
    def alpha(self) -> float:
        """The share of points that the sets are to miss, on average."""
        return self._seen_as.alpha

    @property
    def k(self) -> int:
        """The number of classes."""
        return self._seen_as.k

    @property
    def noise(self) -> Noise | None:
        """How the labels are wrong; None if they are right, or of no use."""
        return self._labelling.noise

    @property
    def threshold(self) -> float:
        return self._q + self._seen_as.score.offset

    @property
    def coverage(self) -> float | None:
        return self._total / self.n if self.n else None

    def predict_set(self, probs: ArrayLike, *, allow_empty: bool = True) -> PredictionSets:
        """Return the sets at the current threshold.

        Parameters
        ----------
        probs, allow_empty
            As in `Calibration.predict_set`.

        Returns
        -------
        PredictionSets
        """
        return replace(self._seen_as, native_threshold=self._q).predict_set(probs, allow_empty=allow_empty)

    def update(self, probs: ArrayLike, labels: ArrayLike | None = None, *, clean: Any = None) -> None:
        """Move the threshold after each of the next points, in their order; if they are refused, it stays.

        Parameters
        ----------
        probs : array of shape (m, k)
            Their class probabilities.
        labels : array of shape (m,), optional
            Their noisy labels. Without, those points count that were checked.
        clean : array of shape (m,) or pair (rows, labels), optional
            The true labels of points that were checked, as for `calibrate`. For these the truth counts
            instead of the noisy label. "?", where it could not be decided, counts as a miss. Which points are
            checked must have nothing to do with their noisy labels.
        """
        points = self._labelling.open(self._seen_as, probs, labels, clean)
        rows, numbers, truth = points
        if numbers is not None and numbers.ndim == 2:
            raise InputError("labels", "must have the shape (m,), one label each", found=f"{numbers.shape}")
        spec, q, n, total = self._seen_as.score.spec, self._q, self.n, self._total
        for where in rows.slices():
            scores = engine.scores(rows[where], spec)
            given = None if numbers is None else numbers[where]
            q, n, total = self._follow(scores, given, truth[where], q, n, total)
        self._q, self.n, self._total = q, n, total
        self.checked += points.checked

    def _follow(
        self, scores: Floats, labels: Ints | None, truth: Ints, q: float, n: int, total: float
    ) -> tuple[float, int, float]:
        """Return the threshold, the number of points and the sum of their shares after some rows."""
        target, rate, decay, weights = 1 - self.alpha, self.rate, self.decay, self._weights
        table = which = None
        if labels is not None:
            which, table = weights.of(labels[:, None], np.ones((len(labels), 1)))
        for t, true in enumerate(truth.tolist()):
            inside: Bools = scores[t] <= q
            if true != NOT_CHECKED:
                share = float(true >= 0 and inside[true])
            elif labels is None:
                continue
            else:
                share = float(weights.own[labels[t]]) if inside[labels[t]] else 0.0
                if table is not None and which is not None:
                    share += weights.unit * int(table[which[t]][inside].sum())
                elif weights.constant:
                    share += weights.constant * np.count_nonzero(inside)
            n += 1
            total += share
            q += (rate if not decay else rate * n**-decay) * (target - share)
        return q, n, total

    def bound(self, delta: float = 0.05) -> float:
        """Return by how much the coverage, averaged over the points so far, may differ from 1 - alpha.

        That is ``(b - a + rate w) / (rate n**(1 - decay)) + w sqrt(log(2 / delta) / (2 n))``, where w is the
        width of the range of shares and scores lie in [a, b]: the span, and a hundredth more, as rows sum to
        1 only roughly. The first part is certain, the second holds with probability 1 - delta over the noise
        in the labels. It is known beforehand, whatever the points will be; infinite before the first, and for
        scores without a greatest value. Afterwards `coverage` and `error` mostly tell more.

        Parameters
        ----------
        delta : float, default=0.05
            The probability with which the bound may fail.

        Examples
        --------
        >>> import numpy as np
        >>> import nacp
        >>> online = nacp.OnlineCalibrator(2, noise=None, start=0.5)
        >>> online.update(np.full((40_000, 2), 0.5), np.zeros(40_000, dtype=int))
        >>> round(online.bound(), 4)
        0.0026
        """
        delta, (low, high) = check_fraction("delta", delta), self._seen_as.score.span
        if not self.n:
            return math.inf
        width = self.range[1] - self.range[0]
        certain: float = (1.01 * (high - low) + self.rate * width) / (self.rate * self.n ** (1 - self.decay))
        return certain + self.error(delta)

    def error(self, delta: float = 0.05) -> float:
        """Return by how much `coverage`, an estimate, may differ from the true coverage of the points so far.

        That is ``w sqrt(log(2 / delta) / (2 n))``, with probability 1 - delta over the noise; 0 if labels
        are right.

        Parameters
        ----------
        delta : float, default=0.05
            The probability with which it may be more.
        """
        share = check_fraction("delta", delta)
        if self.checked == self.n or self.noise is None:
            return 0.0
        return (self.range[1] - self.range[0]) * math.sqrt(math.log(2 / share) / (2 * self.n))

    @property
    def promise(self) -> str:
        """What is guaranteed, in one sentence."""
        return (
            f"averaged over all points so far, coverage of the true label comes as near to "
            f"{percent(1 - self.alpha)} as bound() says: a long-run average, not a promise for single points "
            "or times"
        )

    @property
    def assumptions(self) -> str:
        """What the promise rests on, in words."""
        said = ["nothing about how points come about"]
        if self.noise is not None:
            model = self.noise.describe(self.k)
            said.append(f"{model}, independent of the input and of the past given the true class")
        if self._labelling.basis is not None:
            said.append(self._labelling.basis.assumption)
        if self.checked:
            said.append("which labels were checked has nothing to do with the labels given")
        return "; ".join(said)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a JSON file; `OnlineCalibrator.load` reads it.

        Parameters
        ----------
        path : path
            The file; replaced if it exists.
        """
        told = {
            "format": _FORMAT,
            "version": _VERSION,
            "seen_as": document_of(self._seen_as),
            "labelling": self._labelling.to_dict(),
            "rate": self.rate,
            "decay": self.decay,
            "native_threshold": self._q,
            "n": self.n,
            "checked": self.checked,
            "total": self._total,
        }
        write_document(path, told)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, score: Any = None) -> OnlineCalibrator:
        """Read what `save` wrote; it goes on as if nothing had happened.

        Parameters
        ----------
        path : path
            A JSON file. Nothing in it is executed.
        score : callable, optional
            The function, if the score is one's own.
        """
        document = read_document(path, "file of an online calibrator", (_FORMAT,), _VERSION)
        with reading(path):
            seen_as = calibration_of(document["seen_as"], score)
            online, labelling = cls.__new__(cls), Labelling.from_dict(document["labelling"], seen_as.k)
            online._prepare(seen_as, labelling, check_finite("rate", document["rate"]), document["decay"])
            online._q = check_finite("native_threshold", document["native_threshold"])
            online._total = check_finite("total", document["total"])
            online.n, online.checked = (check_count(name, document[name]) for name in ("n", "checked"))
        return online

    def __repr__(self) -> str:
        return f"OnlineCalibrator(n={self.n}, threshold={self.threshold:.6g}, rate={self.rate:.3g})"

    def __str__(self) -> str:
        seen = ""
        if self.coverage is not None:
            chance = self.error()
            about = f", within {chance:.4f} with probability 95%" if chance else ""
            seen = f" Coverage so far {self.coverage:.4f}{about}."
        return wrapped(
            f"Threshold {self.threshold:.6g} of {self._seen_as.score!r} after {counted(self.n, 'point')}, at "
            f"the rate {self.rate:.3g}.{seen}\n"
            f"Promised: {self.promise}. Assumed: {self.assumptions}."
        )

    def _repr_html_(self) -> str:
        from nacp.show.html import card, told

        return card("OnlineCalibrator", told(str(self)))
