"""The methods that are compared, as choices of labels, noise and guarantee."""

from typing import NamedTuple

from numpy.typing import ArrayLike

from nacp.guarantees import (
    ACNL,
    CRCP,
    NACP,
    PAC,
    Binomial,
    Expected,
    Guarantee,
    SplitConformal,
    Uncorrected,
)


class Method(NamedTuple):
    """One method: which labels it sees, whether it knows of the noise, and what it promises."""

    name: str
    sees_clean: bool
    noise_aware: bool
    guarantee: Guarantee

    @property
    def corrected(self) -> bool:
        """Whether it adds a correction to the target."""
        return self.noise_aware and not isinstance(self.guarantee, Uncorrected)


def six_methods(k: int, delta: float = 1e-3) -> list[Method]:
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
    return [*matrix_methods([1 / k] * k), Method("NACP", False, True, NACP(delta=delta))]


def matrix_methods(priors: ArrayLike | None = None) -> list[Method]:
    """Return the methods for any noise matrix: all but NACP, whose promise is for uniform noise.

    Parameters
    ----------
    priors : array of shape (k,), optional
        The frequencies of the true classes, for ACNL and CRCP. Estimated from the noisy labels by default.

    Examples
    --------
    >>> from nacp.paper.methods import matrix_methods
    >>> [method.name for method in matrix_methods()]
    ['CP (oracle)', 'Noisy-CP', 'NR-CP', 'ACNL', 'CRCP']
    """
    return [
        Method("CP (oracle)", True, False, SplitConformal()),
        Method("Noisy-CP", False, False, SplitConformal()),
        Method("NR-CP", False, True, Uncorrected()),
        Method("ACNL", False, True, ACNL(priors=priors)),
        Method("CRCP", False, True, CRCP(priors=priors)),
    ]


def our_methods(delta: float = 1e-3) -> list[Method]:
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
    return [
        Method(guarantee.name, False, True, guarantee)
        for guarantee in (PAC(delta), Binomial(delta), Expected())
    ]
