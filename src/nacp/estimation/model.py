"""The noise model from the classifier's probabilities and the noisy labels alone.

If the probabilities are calibrated up to a temperature T, a noisy label has the likelihood
``(1 - e) p_T(y|x) + e/k``. Its logarithm is concave in the rate e. Rate and temperature are fitted together,
so that over-confidence of the classifier is not taken for noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.checks import check_choice, check_flag, check_fraction
from nacp.errors import InputError
from nacp.estimation.result import NoiseEstimate
from nacp.noise import MatrixNoise, UniformNoise
from nacp.points import Rows, open_points

# Inverse temperatures from 1/4 to 4; between these nodes the likelihood is interpolated by a cubic spline.
LOG_BETAS = np.linspace(-math.log(4), math.log(4), 41)
_WIDEST = 0.5  # the largest width of an interval that is accepted


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

    This is the weakest source. If the classifier is miscalibrated in another way than by a temperature, the
    estimate is biased, and nothing in the data shows that. A small audit is better.

    Parameters
    ----------
    probs : array of shape (n, k)
        Probabilities for points that the classifier was not trained on, calibrated up to a temperature.
    noisy : array of shape (n,)
        The noisy labels: numbers from 0 to k - 1, or names from `classes`.
    classes, normalize, from_logits
        As in `nacp.calibrate`.
    model : {"uniform", "matrix"}, default="uniform"
        "uniform": maximum likelihood of the rate, with a profile-likelihood interval. "matrix": confident
        learning, without an interval; it needs ``nacp[cleanlab]``.
    confidence : float, default=0.95
        The confidence of the interval; approximate, for many points and a classifier as assumed. An interval
        that is wider than one half, or reaches 1, is refused.

    Returns
    -------
    NoiseEstimate

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet(np.full(10, 0.1), size=4000)
    >>> true = (probs.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    >>> low, high = nacp.noise_from_model(probs, nacp.UniformNoise(0.2).sample(true, 10, rng)).interval
    >>> low < 0.2 < high
    True
    """
    check_fraction("confidence", confidence)
    check_choice("model", model, ("uniform", "matrix"))
    check_flag("normalize", normalize)
    check_flag("from_logits", from_logits)
    rows, labels, named = open_points(
        probs, noisy, normalize=normalize, from_logits=from_logits, classes=classes, names=("probs", "noisy")
    )
    found = _confident_learning(rows, labels) if model == "matrix" else _uniform(rows, labels, confidence)
    return replace(found, classes=named)


def _uniform(rows: Rows, labels: Ints, confidence: float) -> NoiseEstimate:
    rate, log_beta, interval = fit_rate(
        np.exp(label_log_probs(rows, labels, np.exp(LOG_BETAS))), rows.k, confidence
    )
    found = f"{interval[0]:.3g} to {interval[1]:.3g}"
    if interval[1] - interval[0] > _WIDEST:
        raise InputError(
            "probs",
            f"hardly determines the noise rate of the labels: the likelihood is flat from {found}",
            remedy="use more points, a sharper classifier, or noise_from_audit",
            spoken="use more points, a sharper classifier, or nacp noise audit",
        )
    if interval[1] >= 1:
        problem = f"may have nothing to do with probs: the noise rate lies in {found}"
        raise InputError("noisy", problem, remedy="are their rows in the same order?")
    edge = ", the most extreme one that is tried" if abs(log_beta) > 0.999 * LOG_BETAS[-1] else ""
    return NoiseEstimate(
        noise=UniformNoise(rate, interval, confidence),
        rate=rate,
        interval=interval,
        confidence=confidence,
        wrong=rate * (1 - 1 / rows.k),
        n=rows.n,
        k=rows.k,
        method="maximum likelihood of the rate and a temperature; profile-likelihood interval (approximate)",
        assumption="the classifier's probabilities are calibrated but for a temperature; every class has the "
        "same rate, and any class is as likely to replace the true one",
        why=f"uniform: the likelihood shows one rate, with temperature {math.exp(-log_beta):.3g}{edge}",
        approximate=True,
    )


def label_log_probs(rows: Rows, labels: Ints, betas: Floats) -> Floats:
    """Return ``log p_T(label | x)`` for each inverse temperature and row: an array of shape (betas, n)."""
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
    """Return the rate with the largest likelihood, given the probabilities of the noisy labels."""
    from scipy.optimize import brentq

    even = 1 / k

    def slope(rate: float) -> float:
        with np.errstate(divide="ignore"):
            return float(((even - probs) / ((1 - rate) * probs + rate * even)).sum())

    if slope(0.0) <= 0:
        return 0.0
    return 1.0 if slope(1.0) >= 0 else float(brentq(slope, 0.0, 1.0, xtol=1e-9))


def fit_rate(probs: Floats, k: int, confidence: float) -> tuple[float, float, tuple[float, float]]:
    """Maximise the log-likelihood ``sum log((1 - e) p_T + e/k)`` over the rate e and the temperature T.

    `probs` has the probabilities of the noisy labels for each of ``exp(LOG_BETAS)``, (41, n). Returned are
    the best rate and log inverse temperature, and the profile-likelihood interval of the rate.
    """
    from scipy.interpolate import CubicSpline
    from scipy.optimize import brentq
    from scipy.stats import chi2

    def profile(rates: float | Floats) -> tuple[float, float]:
        return _maximum(np.log((1 - rates) * probs + rates / k).sum(axis=1))

    rates = np.array([best_rate(each, k) for each in probs])
    log_beta, _ = profile(rates[:, None])
    rate = float(np.clip(CubicSpline(LOG_BETAS, rates)(log_beta), 0, 1))
    floor = profile(rate)[1] - float(chi2.ppf(confidence, 1)) / 2

    def above(other: float) -> float:
        return profile(other)[1] - floor

    low = 0.0 if rate == 0 or above(0.0) >= 0 else float(brentq(above, 0.0, rate, xtol=1e-6))
    high = 1.0 if rate == 1 or above(1.0) >= 0 else float(brentq(above, rate, 1.0, xtol=1e-6))
    return rate, log_beta, (low, high)


def _maximum(values: Floats) -> tuple[float, float]:
    """Return the argument and the value of the maximum of the cubic spline through values at the nodes."""
    from scipy.interpolate import CubicSpline

    spline = CubicSpline(LOG_BETAS, values)
    extrema = np.append(LOG_BETAS, spline.derivative().roots(extrapolate=False))
    extrema = extrema[np.isfinite(extrema)]  # if the spline is constant there are nan
    best = extrema[np.argmax(spline(extrema))]
    return float(best), float(spline(best))


def _confident_learning(rows: Rows, labels: Ints) -> NoiseEstimate:
    try:
        from cleanlab.count import compute_confident_joint, estimate_latent
    except ImportError:
        raise ImportError('model="matrix" needs cleanlab: pip install "nacp[cleanlab]"') from None
    joint = compute_confident_joint(labels, rows.whole(slice(None)))
    frequencies, columns, _ = estimate_latent(joint, labels)
    noise = MatrixNoise.from_columns(columns)
    wrong = float(frequencies @ (1 - np.diag(noise.P)))
    return NoiseEstimate(
        noise=noise,
        rate=wrong,
        wrong=wrong,
        n=rows.n,
        k=rows.k,
        method="confident learning by cleanlab; no interval",
        assumption="a label is right where the classifier is surer of it than on average for that label",
        why="a matrix: asked for",
    )
