"""OnlineCalibrator: a threshold that follows drifting data, from noisy or checked labels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp.calibrate import chosen_guarantee
from nacp.calibration import Calibration
from nacp.checks import check_count, check_finite, check_flag, check_fraction, check_rate
from nacp.errors import InputError
from nacp.files import number, plain
from nacp.guarantees.base import percent
from nacp.noise import UNSAID, NoiseLike, Unsaid
from nacp.points import check_classes
from nacp.scores import ScoreLike, as_score
from nacp.sets import PredictionSets
from nacp.stream.arrivals import Follower, Labelling, refuse_groups
from nacp.wrapping import counted, wrapped

# The default rate: without noise a threshold remembers about _MEMORY points, if a calibration shows how
# scores are spread; otherwise a point moves it by at most the part _STEP of the span of all scores.
_MEMORY, _STEP = 500, 0.01


class OnlineCalibrator(Follower):
    """A threshold that moves after each batch of points, so that the sets cover on average over time.

    After a batch whose sets were made at q, the threshold becomes ``q + rate * sum(1 - alpha - g)``, where g
    is the sum of W[y, l] over a point's set at q and y its label: a gradient step on an unbiased estimate of
    the pinball loss [1]_, for any noise matrix. Nothing is assumed about the points: they may drift, or be
    chosen by an adversary.

    The coverage of the true label stays near 1 - alpha *on average over all labelled points so far*: see
    `bound`. The sets of each batch must be made by `predict_set` after the `update` of the batch before it.

    Parameters
    ----------
    k : int, optional
        The number of classes. If `start` is a calibration, this and the other settings are taken from it.
    noise : float, array of shape (k, k), noise model or None
        How the labels are wrong, known exactly; ``None`` means that they are correct. Optional if `start` is
        a calibration with a noise model for all rows, or if all labels will be checked ones.
    score : str, score or callable, optional
        As in `calibrate`, by default "hps".
    alpha : float, optional
        The share of true labels that the sets may miss; by default 0.1.
    rate : float, optional
        How far a point moves the threshold, in units of the score. A larger rate follows faster, and
        fluctuates more. By default ``d / (500 w**2)``, where w is the width of the range of shares, and d how
        much the threshold rises for the coverage to rise by 1, around 1 - alpha in the calibration `start`;
        but at most d divided by the size of the largest batch so far, as larger steps would overshoot.
        Without a calibration (or with one that was loaded, or made from checked labels) d is the span of
        scores, and the rate at most ``d / (100 w)``; it must be given where the span is infinite.
    decay : float, default=0.0
        After n points the rate is ``rate / n**decay``; more than 0 is for data that do not drift.
    start : Calibration or float, optional
        The first threshold. By default the highest possible score, so that sets hold all classes at first.
    classes, normalize, from_logits
        As in `calibrate`; only if `start` is not a calibration.

    Attributes
    ----------
    threshold : float
        The current threshold, on the scale of the score; it may lie outside of the span of scores.
    n, checked : int
        The number of points that were used, and of those whose label was checked.
    coverage : float or None
        The mean share of the points at the thresholds of their batches: an estimate of the coverage so far.

    See Also
    --------
    Monitor : An alarm if a fixed threshold covers too little.

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
    >>> online, hits = nacp.OnlineCalibrator(start=cal), []
    >>> for t in range(2000, 12_000, 100):
    ...     hits.extend(online.predict_set(probs[t : t + 100]).contains(labels[t : t + 100]))
    ...     online.update(probs[t : t + 100], noisy[t : t + 100])
    >>> bool(abs(np.mean(hits) - 0.9) < 0.02)
    True
    """

    _format, _undecided = "nacp.online", 0.0

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
        refuse_groups("start", start)
        given = {"k": k, "score": None if score is None else as_score(score), "classes": classes}
        given |= {"normalize": normalize or None, "from_logits": from_logits or None}
        known = start if isinstance(start, Calibration) else None
        calibration = _without_calibration(start, given) if known is None else _checked(known, given)
        if alpha is not None:
            calibration = replace(calibration, alpha=check_fraction("alpha", alpha))
        spread = None if known is None else _spread_around(known, calibration.alpha)
        labelling = Labelling.of(noise, calibration.k, calibration.classes, known)
        if labelling.noise is not None and not labelling.noise.doubt.exact:
            problem = "must be known exactly, without an interval or a radius"
            raise InputError("noise", problem, found=repr(labelling.noise))
        self._follow(calibration, labelling)  # it says how rows are read; the current threshold is _q
        self.range = self._shares.range
        self._width, (low, high) = self.range[1] - self.range[0], calibration.score.span
        # How far a batch may move the threshold, divided by how far its coverage is from 1 - alpha.
        self._reach = math.inf if rate is not None else high - low if spread is None else spread
        if rate is None and not math.isfinite(self._reach):
            problem = f"must be given: scores of {calibration.score!r} have no greatest value"
            remedy = "pass about a hundredth of the difference that scores have around the threshold"
            raise InputError("rate", problem, remedy=remedy)
        if rate is None:
            rate = self._reach * (_STEP / self._width if spread is None else 1 / (_MEMORY * self._width**2))
        self.rate, self.decay = check_finite("rate", rate), check_rate(decay, "decay")
        if self.rate <= 0:
            raise InputError("rate", "must be more than 0", found=repr(rate))
        self.n, self._total, self._largest = 0, 0.0, 0

    @property
    def alpha(self) -> float:
        """The share of true labels that the sets may miss, on average."""
        return self.calibration.alpha

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.calibration.k

    @property
    def threshold(self) -> float:
        return self._q + self.calibration.score.offset

    @property
    def coverage(self) -> float | None:
        return self._total / self.n if self.n else None

    def predict_set(self, probs: ArrayLike, *, allow_empty: bool = True) -> PredictionSets:
        """Return the sets at the current threshold; see `Calibration.predict_set`."""
        return replace(self.calibration, native_threshold=self._q).predict_set(probs, allow_empty=allow_empty)

    def _use(self, shares: Floats) -> None:
        size, total = len(shares), float(shares.sum())
        self._largest = max(self._largest, size)
        self.rate = min(self.rate, self._reach / self._largest)
        self.n += size
        self._q += self.rate * self.n**-self.decay * (size * (1 - self.alpha) - total)
        self._total += total

    def bound(self, delta: float = 0.05) -> float:
        """Return by how much the coverage, averaged over the points so far, may differ from 1 - alpha.

        That is ``(b - a + rate B w) / (rate n**(1 - decay))``, which is certain, plus `error`. B is the size
        of the largest batch, w the width of the range of shares, and scores lie in [a, b] (the span and a
        hundredth more). Nothing is said of points without a label, unless which points have one is
        independent of all else. `coverage` and `error` are mostly more precise.

        Examples
        --------
        >>> import numpy as np
        >>> import nacp
        >>> online = nacp.OnlineCalibrator(2, noise=None, start=0.5)
        >>> for _ in range(400):
        ...     online.update(np.full((100, 2), 0.5), np.zeros(100, dtype=int))
        >>> round(online.bound(), 4)
        0.005
        """
        chance, (low, high) = self.error(delta), self.calibration.score.span
        if not self.n:
            return math.inf
        furthest = 1.01 * (high - low) + self.rate * self._largest * self._width
        return float(furthest / (self.rate * self.n ** (1 - self.decay))) + chance

    def error(self, delta: float = 0.05) -> float:
        """Return by how much `coverage` may differ from the true coverage of the points so far.

        That is at most ``w sqrt(log(2 / delta) / (2 n))``, with probability 1 - delta over the noise in the
        labels and for a number of points n that was fixed beforehand; 0 if labels are right.
        """
        share = check_fraction("delta", delta)
        if self.checked == self.n or self.noise is None:
            return 0.0
        return self._width * math.sqrt(math.log(2 / share) / (2 * self.n))

    @property
    def promise(self) -> str:
        """What is guaranteed, in one sentence."""
        return (
            f"averaged over all labelled points so far, coverage of the true label comes as near to "
            f"{percent(1 - self.alpha)} as bound() says: a long-run average at a time fixed beforehand, "
            "not a promise for single points or times"
        )

    @property
    def assumptions(self) -> str:
        """What the promise rests on, in words."""
        said = ["the sets of a batch were made at the threshold before it", "nothing about the points"]
        if self.noise is not None:
            model = self.noise.describe(self.k)
            said.append(f"{model}, independent of the input and of the past given the true class")
        if self._labelling.basis is not None:
            said.append(self._labelling.basis.assumption)
        if self.checked:
            said.append("which labels were checked does not depend on the labels given")
        return "; ".join(said)

    def _state(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("rate", "decay", "n", "checked")}
        kept |= {"native_threshold": self._q, "total": self._total, "largest": self._largest}
        return kept | {"reach": plain(self._reach)}

    @classmethod
    def _of_state(cls, calibration: Calibration, noise: Any, state: dict[str, Any]) -> OnlineCalibrator:
        rate = check_finite("rate", state["rate"])
        found = cls(start=calibration, noise=noise, rate=rate, decay=state["decay"])
        found._q = check_finite("native_threshold", state["native_threshold"])
        found._total = check_finite("total", state["total"])
        found._reach = number("reach", state["reach"])
        counts = (check_count(name, state[name]) for name in ("n", "checked", "largest"))
        found.n, found.checked, found._largest = counts
        return found

    def __repr__(self) -> str:
        return f"OnlineCalibrator(n={self.n}, threshold={self.threshold:.6g}, rate={self.rate:.3g})"

    def __str__(self) -> str:
        seen = ""
        if self.coverage is not None:
            chance = self.error()
            about = f", within {chance:.4f} with probability 95%" if chance else ""
            seen = f" Coverage so far {self.coverage:.4f}{about}."
        return wrapped(
            f"Threshold {self.threshold:.6g} of {self.calibration.score!r} after {counted(self.n, 'point')}, "
            f"at the rate {self.rate:.3g}.{seen}\n"
            f"Promised: {self.promise}. Assumed: {self.assumptions}."
        )


def _checked(start: Calibration, given: dict[str, Any]) -> Calibration:
    """Return the calibration at the start without its tally; refuse settings that differ from its own."""
    if not math.isfinite(start.native_threshold):
        raise InputError("start", "has an infinite threshold", remedy="pass a threshold to start from")
    for name, value in (given | {"classes": check_classes(given["classes"], start.k)}).items():
        own = getattr(start, name)
        if value is not None and value != own:
            raise InputError(name, f"must be {own!r}, as in the calibration at the start", found=repr(value))
    return replace(start, tally=None)


def _without_calibration(start: Any, given: dict[str, Any]) -> Calibration:
    """Return a calibration that was not made from points; it says how rows are read."""
    if given["k"] is None:
        raise InputError("k", "must be given: the number of classes", remedy="or pass start=, a calibration")
    k, score = check_count("k", given["k"], 2), given["score"] or as_score("hps")
    low, high = score.span
    if start is None and not math.isfinite(high):
        raise InputError("start", f"must be given: scores of {score!r} have no greatest value")
    native = high if start is None else float(score.to_native(np.asarray(check_finite("start", start))))
    if not low <= native <= high:
        within = f"{low + score.offset:g} to {high + score.offset:g}"
        raise InputError("start", f"must be a score, from {within}", found=repr(start))
    options = ("normalize", "from_logits")
    known: dict[str, Any] = {name: check_flag(name, given[name] or False) for name in options}
    found = 0.0, native, 0.0  # the correction, the threshold and the estimate
    guarantee, classes = chosen_guarantee(None, None, None), check_classes(given["classes"], k)
    return Calibration(0.1, 1, k, score, None, guarantee, "last", *found, classes=classes, **known)


def _spread_around(calibration: Calibration, alpha: float) -> float | None:
    """Return the rise of the threshold per unit of coverage, around 1 - alpha; None if it is not known."""
    if calibration.tally is None or calibration.checked is not None:
        return None
    curve = calibration.curve
    clean = np.maximum.accumulate(curve.clean)
    ends = np.searchsorted(clean, [1 - 1.5 * alpha, 1 - 0.5 * alpha]).clip(max=len(curve) - 1)
    (low, high), (least, most) = curve.thresholds[ends], clean[ends]
    return float((high - low) / (most - least)) if high > low and most > least else None
