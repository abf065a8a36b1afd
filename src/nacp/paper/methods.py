"""The methods that are compared, as choices of labels, noise and guarantee."""

from typing import NamedTuple

from nacp.guarantees import ACNL, CRCP, NACP, Guarantee, SplitConformal, Uncorrected


class Method(NamedTuple):
    """One method: which labels it sees, whether it knows of the noise, and what it promises."""

    name: str
    sees_clean: bool
    noise_aware: bool
    guarantee: Guarantee


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
    even = [1 / k] * k
    return [*_common(ACNL(priors=even), CRCP(priors=even)), Method("NACP", False, True, NACP(delta=delta))]


def matrix_methods() -> list[Method]:
    """Return the methods for any noise matrix: all but NACP, with estimated class frequencies.

    Examples
    --------
    >>> from nacp.paper.methods import matrix_methods
    >>> [method.name for method in matrix_methods()]
    ['CP (oracle)', 'Noisy-CP', 'NR-CP', 'ACNL', 'CRCP']
    """
    return _common(ACNL(), CRCP())


def _common(acnl: ACNL, crcp: CRCP) -> list[Method]:
    return [
        Method("CP (oracle)", True, False, SplitConformal()),
        Method("Noisy-CP", False, False, SplitConformal()),
        Method("NR-CP", False, True, Uncorrected()),
        Method("ACNL", False, True, acnl),
        Method("CRCP", False, True, crcp),
    ]
