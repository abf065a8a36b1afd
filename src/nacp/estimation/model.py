"""The noise model from the classifier's own probabilities and the noisy labels, and nothing else.

If the probabilities are calibrated but for a temperature T, a noisy label has the likelihood
``(1 - e) p_T(y|x) + e/k``, concave in the rate e. Rate and temperature are fitted together, so that an
over-confident classifier does not pass for noise. A matrix comes from confident learning, by
cleanlab (``nacp[cleanlab]``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.checks import check_choice, check_flag, check_fraction
from nacp.errors import InputError
from nacp.estimation.result import NoiseEstimate
from nacp.noise import MatrixNoise, UniformNoise
from nacp.points import Rows, open_points

# Temperatures from a quarter to four. Between these log-probabilities are interpolated by cubic splines.
_LOG_BETAS = np.linspace(-math.log(4), math.log(4), 41)
_WIDEST = 0.5


def noise_from_model(
    probs: ArrayLike,
    noisy: ArrayLike,
    *,
    classes: Sequence[Any] | None = None,
    normalize: bool = False,
    from_logits: bool = False,
    model: Literal["uniform", "matrix"] = "uniform",
    confidence: float = 0.95,
) -> NoiseEstimate:
    """Estimate the noise from the classifier's probabilities and the noisy labels alone.

    Parameters
    ----------
    probs : array of shape (n, k)
        The classifier's probabilities for points that it was not trained on. They must be calibrated but for
        a temperature, which is fitted.
    noisy : array of shape (n,)
        The noisy labels: numbers from 0 to k - 1, or names from `classes`.
    classes : sequence of length k, optional
        The class names, in the order of the columns of `probs`.
    normalize : bool, default=False
        Divide each row of `probs` by its sum.
    from_logits : bool, default=False
        `probs` holds logits.
    model : {"uniform", "matrix"}, default="uniform"
        "uniform": maximum likelihood of the rate, with a profile-likelihood interval. "matrix": confident
        learning, without an interval; it needs ``nacp[cleanlab]``.
    confidence : float, default=0.95
        Of the interval; approximate, for many points and a classifier that is as assumed. If it is not, the
        true rate may lie outside. One above the interval is safe: sets are larger than need be. One below it
        is not: coverage is too low.

    Returns
    -------
    NoiseEstimate

    Raises
    ------
    InputError
        If the likelihood is so flat that the interval is wider than one half, or reaches 1.

    Notes
    -----
    This is the weakest source. A classifier that is badly calibrated in another way than by a temperature
    biases it, and nothing in the data shows that. A small audit is better.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet(np.full(10, 0.1), size=4000)
    >>> true = (probs.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    >>> estimate = nacp.noise_from_model(probs, nacp.UniformNoise(0.2).sample(true, 10, rng))
    >>> estimate.interval[0] < 0.2 < estimate.interval[1]
    True
    """
    check_fraction("confidence", confidence)
    check_choice("model", model, ("uniform", "matrix"))
    check_flag("normalize", normalize)
    check_flag("from_logits", from_logits)
    rows, labels, _ = open_points(
        probs, noisy, normalize=normalize, from_logits=from_logits, classes=classes, names=("probs", "noisy")
    )
    return _confident_learning(rows, labels) if model == "matrix" else _uniform(rows, labels, confidence)


def _uniform(rows: Rows, labels: Ints, confidence: float) -> NoiseEstimate:
    fit = Likelihood(label_log_probs(rows, labels, np.exp(_LOG_BETAS)), rows.k)
    rate, log_beta = fit.best()
    interval = fit.interval(rate, confidence)
    found = f"{interval[0]:.3g} to {interval[1]:.3g}"
    if interval[1] - interval[0] > _WIDEST:
        raise InputError(
            "probs",
            f"and noisy hardly determine the noise rate: the likelihood is flat from {found}",
            remedy="use more points, a sharper classifier, or noise_from_audit",
            spoken="use more points, a sharper classifier, or nacp noise audit",
        )
    if interval[1] >= 1:
        raise InputError(
            "noisy",
            f"may have nothing to do with probs: the noise rate lies in {found}",
            remedy="are their rows in the same order?",
        )
    edge = (
        ", at the edge of what is tried: the classifier may be ill calibrated in another way"
        if abs(log_beta) > 0.999 * _LOG_BETAS[-1]
        else ""
    )
    return NoiseEstimate(
        noise=UniformNoise(rate, interval, confidence),
        rate=rate,
        interval=interval,
        confidence=confidence,
        wrong=rate * (1 - 1 / rows.k),
        n=rows.n,
        k=rows.k,
        method="maximum likelihood of the rate and a temperature; profile-likelihood interval (approximate)",
        assumption="the classifier's probabilities are calibrated but for a temperature, which cannot be "
        "checked without true labels; every class has the same rate, and any class is as likely to replace "
        "the true one",
        why=f"uniform: the likelihood shows one rate, with temperature {math.exp(-log_beta):.3g}{edge}",
        approximate=True,
    )


def label_log_probs(rows: Rows, labels: Ints, betas: Floats) -> Floats:
    """Return ``log p_T(label | x)`` for each inverse temperature and row: (betas, n), block by block."""
    found = np.empty((len(betas), rows.n))
    for where in rows.slices():
        block = rows.whole(where)
        logs = np.log(np.maximum(block, np.finfo(np.float32).tiny, dtype=block.dtype))
        own = logs[np.arange(len(logs)), labels[where]].astype(np.float64)
        for i, beta in enumerate(betas):
            with np.errstate(under="ignore"):
                mass = np.exp(logs * block.dtype.type(beta)).sum(axis=1, dtype=np.float64)
            found[i, where] = beta * own - np.log(mass)
    return found


def best_rate(probs: Floats, k: int) -> float:
    """Return the rate with the largest likelihood, given the noisy labels' probabilities: it is concave.

    Examples
    --------
    >>> import numpy as np
    >>> from nacp.estimation.model import best_rate
    >>> round(best_rate(np.array([1.0, 1.0, 1.0, 0.0]), k=2), 6)  # three right labels, one that must be wrong
    0.5
    """
    from scipy.optimize import brentq

    even = 1 / k

    def slope(rate: float) -> float:
        with np.errstate(divide="ignore"):
            return float(((even - probs) / ((1 - rate) * probs + rate * even)).sum())

    if slope(0.0) <= 0:
        return 0.0
    return 1.0 if slope(1.0) >= 0 else float(brentq(slope, 0.0, 1.0, xtol=1e-9))


class Likelihood:
    """The log-likelihood of a noise rate and a temperature, ``sum log((1 - e) p_T + e/k)``.

    The labels' log-probabilities come from `label_log_probs`, at `_LOG_BETAS`.
    """

    def __init__(self, log_probs: Floats, k: int) -> None:
        from scipy.interpolate import CubicSpline

        self._k = k
        self._at_nodes = np.exp(log_probs)
        self._spline = CubicSpline(_LOG_BETAS, log_probs)

    def probs(self, log_beta: float) -> Floats:
        """Return p_T of the labels, at any temperature in the range."""
        found: Floats = np.exp(self._spline(log_beta))
        return found

    def value(self, rate: float, probs: Floats) -> Any:
        """Return the log-likelihood, given p_T; for several temperatures at once if p_T is."""
        with np.errstate(divide="ignore"):
            return np.log((1 - rate) * probs + rate / self._k).sum(axis=-1)

    def best(self) -> tuple[float, float]:
        """Return the best rate, and the log of the inverse temperature beside it."""
        values = [self.value(best_rate(probs, self._k), probs) for probs in self._at_nodes]

        def profile(log_beta: float) -> float:
            probs = self.probs(log_beta)
            return float(self.value(best_rate(probs, self._k), probs))

        log_beta, _ = _refine(profile, np.array(values))
        return best_rate(self.probs(log_beta), self._k), log_beta

    def profile(self, rate: float) -> float:
        """Return the largest log-likelihood at a rate, over temperatures."""
        values = self.value(rate, self._at_nodes)
        return _refine(lambda log_beta: float(self.value(rate, self.probs(log_beta))), values)[1]

    def interval(self, rate: float, confidence: float) -> tuple[float, float]:
        """Return the rates whose profile is within half a chi-squared quantile of the best."""
        from scipy.optimize import brentq
        from scipy.stats import chi2

        floor = self.profile(rate) - float(chi2.ppf(confidence, 1)) / 2

        def above(other: float) -> float:
            return self.profile(other) - floor

        low = 0.0 if rate == 0 or above(0.0) >= 0 else float(brentq(above, 0.0, rate, xtol=1e-6))
        high = 1.0 if rate == 1 or above(1.0) >= 0 else float(brentq(above, rate, 1.0, xtol=1e-6))
        return low, high


def _refine(function: Callable[[float], float], values: Floats) -> tuple[float, float]:
    """Return where a function is largest and how large, from its values at the nodes."""
    from scipy.optimize import minimize_scalar

    best = int(np.argmax(values))
    bounds = _LOG_BETAS[max(best - 1, 0)], _LOG_BETAS[min(best + 1, len(_LOG_BETAS) - 1)]
    found = minimize_scalar(lambda x: -function(x), bounds=bounds, method="bounded", options={"xatol": 1e-5})
    if -found.fun >= values[best]:
        return float(found.x), float(-found.fun)
    return float(_LOG_BETAS[best]), float(values[best])


def _confident_learning(rows: Rows, labels: Ints) -> NoiseEstimate:
    try:
        from cleanlab.count import compute_confident_joint, estimate_latent
    except ImportError:
        raise ImportError(
            'model="matrix" needs cleanlab for confident learning; pip install "nacp[cleanlab]"'
        ) from None
    joint = compute_confident_joint(labels, rows.whole(slice(None)))
    frequencies, columns, _ = estimate_latent(joint, labels)
    noise = MatrixNoise.from_columns(columns)
    wrong = float(frequencies @ (1 - np.diag(noise.P)))
    return NoiseEstimate(
        noise=noise,
        rate=wrong,
        interval=None,
        confidence=1.0,
        wrong=wrong,
        n=rows.n,
        k=rows.k,
        method="confident learning by cleanlab; no interval",
        assumption="a label is right where the classifier is surer of it than it is on average where that "
        "label was given; nothing in the data shows whether that holds",
        why="a matrix: asked for",
    )
