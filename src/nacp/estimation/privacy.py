"""Labels made private: the one case in which the noise is known exactly."""

from nacp.estimation._labels import check_k
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

    See Also
    --------
    nacp.RandomizedResponse : The model.

    Examples
    --------
    >>> import nacp
    >>> round(nacp.noise_from_privacy(8.0, k=1000).rate, 3)
    0.251
    """
    classes = check_k(k)
    noise = RandomizedResponse(epsilon)
    rate = noise.epsilon(classes)
    return NoiseEstimate(
        noise=noise,
        rate=rate,
        interval=(rate, rate),
        confidence=1.0,
        wrong=rate * (1 - 1 / classes),
        n=0,
        k=classes,
        method="k-ary randomised response; nothing is estimated",
        assumption="each label was randomised on its own, and no other error was made before",
        why="the mechanism is uniform noise by design",
    )
