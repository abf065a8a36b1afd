"""The noise of labels made private by a known mechanism."""

from nacp.checks import check_count, check_nonnegative
from nacp.errors import InputError
from nacp.estimation.result import NoiseEstimate
from nacp.noise import RandomizedResponse


def noise_from_privacy(epsilon: float, k: int) -> NoiseEstimate:
    """Return the noise of labels made private by k-ary randomised response: known exactly.

    Parameters
    ----------
    epsilon : float
        The parameter of label differential privacy; larger is less private.
    k : int
        The number of classes.

    Returns
    -------
    NoiseEstimate
        Its model is `nacp.RandomizedResponse`.

    Examples
    --------
    >>> import nacp
    >>> round(nacp.noise_from_privacy(8.0, k=1000).rate, 3)
    0.251
    """
    check_count("k", k, 2)
    if check_nonnegative("epsilon", epsilon) == 0:
        raise InputError("epsilon", "must be above 0: at 0 the labels say nothing")
    noise = RandomizedResponse(epsilon)
    rate = noise.epsilon(k)
    return NoiseEstimate(
        noise=noise,
        rate=rate,
        interval=(rate, rate),
        wrong=rate * (1 - 1 / k),
        n=0,
        k=int(k),
        method="k-ary randomised response; nothing is estimated",
        assumption="each label was randomised on its own, and no other error was made before",
        why="the mechanism is uniform noise by design",
    )
