"""What every calibration says against its noise model, if the labels contradict it."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from nacp.coverage.contradiction import LEVEL, Contradiction, contradiction
from nacp.coverage.curve import Curve
from nacp.errors import warn
from nacp.noise import MatrixNoise, Noise


class NoiseModelWarning(UserWarning):
    """The labels contradict the noise model, so what is promised may not hold.

    Examples
    --------
    >>> import warnings
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.25).sample(labels, 10, random_state=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", nacp.NoiseModelWarning)
    ...     cal = nacp.calibrate(probs, noisy, noise=0.4)
    >>> print(cal.warnings[0])
    the labels contradict uniform label noise with rate 0.4: under it the share of true labels with a score
    above 0.99... is estimated at -0.1..., and no share is negative...
    """


def against(
    curve: Curve, noise: Noise | None, offset: float, classes: tuple[Any, ...] | None
) -> tuple[str, ...]:
    """Return what the labels say against a noise model: a sentence, or nothing.

    The curve is under the low end of an interval of rates, as a smaller rate implies no more than a larger
    one; `offset` is that of the score.
    """
    if noise is None:
        return ()
    found = contradiction(curve)
    if found is None:
        return ()
    return (
        f"the labels contradict {noise.describe(curve.k)}: under it the share of true labels "
        f"{_where(found, offset, classes)} is estimated at {found.share:.3f}, and no share is "
        f"negative (a right model is contradicted in this way at most once in {1 / LEVEL:,.0f} times). Do "
        f"not rely on the promise: coverage may be far lower. {_advice(noise)}, ask nacp diagnose, or "
        "check some labels and calibrate with these clean ones, which needs no noise model",
    )


def warn_of(sentences: Iterable[str]) -> None:
    """Warn of what is said against a noise model."""
    for sentence in sentences:
        warn(sentence, NoiseModelWarning)


def _advice(noise: Noise) -> str:
    if isinstance(noise, MatrixNoise):
        return "Look whether the matrix is transposed (each row is of a true class) or states too much noise"
    return "State less noise"


def _where(found: Contradiction, offset: float, classes: tuple[Any, ...] | None) -> str:
    if found.label is not None:
        return f"of class {found.label if classes is None else classes[found.label]!r}"
    low, high = found.low + offset, found.high + offset
    if np.isposinf(high):
        return f"with a score above {_shown(low)}"
    return f"with a score {'up to' if np.isneginf(low) else f'from {_shown(low)} to'} {_shown(high)}"


def _shown(value: float) -> str:
    """Return a number by four digits; by more, if these would make a whole number of what is none."""
    texts = (f"{value:.{digits}g}" for digits in range(4, 18))
    return next(text for text in texts if float(text) == value or not float(text).is_integer())
