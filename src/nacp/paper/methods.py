"""The methods that are compared, as choices of labels, noise and guarantee."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from nacp.calibration import Calibration
from nacp.guarantees import (
    ACNL,
    CRCP,
    NACP,
    PAC,
    Binomial,
    Corrected,
    Expected,
    Guarantee,
    SplitConformal,
    Uncorrected,
)
from nacp.noise import Noise

PAPER_DELTA = 1e-3


@dataclass(frozen=True)
class Method:
    """One method: which labels it sees, whether it knows of the noise, and what it promises."""

    name: str
    sees_clean: bool
    noise_aware: bool
    guarantee: Guarantee

    @property
    def corrected(self) -> bool:
        """Whether it adds a correction to the target."""
        return self.noise_aware and not isinstance(self.guarantee, Uncorrected)

    def to_dict(self) -> dict[str, object]:
        """Return all of it as plain values."""
        return vars(self) | {"guarantee": self.guarantee.to_dict()}


def six_methods(k: int, delta: float = PAPER_DELTA) -> list[Method]:
    """Return the methods of the paper's Tables 1 and 3, for k equally frequent classes.

    Parameters
    ----------
    k : int
        The number of classes.
    delta : float, default=0.001
        The probability with which NACP's promise may fail.

    Examples
    --------
    >>> from nacp.paper.methods import six_methods
    >>> [method.name for method in six_methods(10)]
    ['CP (oracle)', 'Noisy-CP', 'NR-CP', 'ACNL', 'CRCP', 'NACP']
    """
    return _methods([1 / k] * k, delta)


def methods_under(noise: Noise, priors: ArrayLike | None = None) -> list[Method]:
    """Return the methods of the paper that can be used under some noise: NACP's promise needs uniform noise.

    Parameters
    ----------
    noise : Noise
        The noise.
    priors : array of shape (k,), optional
        The frequencies of the true classes, for ACNL and CRCP. Estimated from the noisy labels by default.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper.methods import methods_under
    >>> [method.name for method in methods_under(nacp.GroupNoise((0, 0, 1, 1), 0.2))]
    ['CP (oracle)', 'Noisy-CP', 'NR-CP', 'ACNL', 'CRCP']
    """
    return [
        method
        for method in _methods(priors, PAPER_DELTA)
        if method.guarantee.applies(noise if method.noise_aware else None, "last") is None
    ]


def _methods(priors: ArrayLike | None, delta: float) -> list[Method]:
    return [
        Method("CP (oracle)", sees_clean=True, noise_aware=False, guarantee=SplitConformal()),
        Method("Noisy-CP", sees_clean=False, noise_aware=False, guarantee=SplitConformal()),
        aware(Uncorrected(), "NR-CP"),
        aware(ACNL(priors=priors), "ACNL"),
        aware(CRCP(priors=priors), "CRCP"),
        aware(NACP(delta=delta), "NACP"),
    ]


def our_methods(delta: float = PAPER_DELTA) -> list[Method]:
    """Return the guarantees that go past the paper, for any noise but "binomial", which is for uniform noise.

    Parameters
    ----------
    delta : float, default=0.001
        The probability with which their promises may fail.

    Examples
    --------
    >>> from nacp.paper.methods import our_methods
    >>> [method.name for method in our_methods()]
    ['pac', 'binomial', 'expected']
    """
    return [aware(guarantee) for guarantee in (PAC(delta), Binomial(delta), Expected())]


def aware(guarantee: Guarantee, name: str | None = None) -> Method:
    """Return the method that sees noisy labels, knows of the noise, and has that guarantee.

    Parameters
    ----------
    guarantee : Guarantee
        What is promised.
    name : str, optional
        That of the guarantee by default.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper.methods import aware
    >>> aware(nacp.PAC()).name
    'pac'
    """
    return Method(name or guarantee.name, sees_clean=False, noise_aware=True, guarantee=guarantee)


def cost(calibration: Calibration) -> float:
    """Return what a promise cost: the correction, or the excess over the target where thresholds are tested.

    Parameters
    ----------
    calibration : Calibration
        From `calibrate`.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> from nacp.paper.methods import cost
    >>> probs, labels = twins.simulate("cifar10", n=2000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> calibrations = [nacp.calibrate(probs, noisy, noise=0.2, guarantee=name) for name in ("pac", "none")]
    >>> [0 < cost(calibration) < 0.1 for calibration in calibrations]
    [True, False]
    """
    corrected = isinstance(calibration.guarantee, Corrected)
    return calibration.correction if corrected else calibration.excess
