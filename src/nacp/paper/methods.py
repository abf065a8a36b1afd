"""The six methods of the paper, as choices of labels, noise and guarantee."""

from typing import NamedTuple

from nacp.guarantees import ACNL, CRCP, NACP, Corrected, SplitConformal, Uncorrected


class Method(NamedTuple):
    """One method: which labels it sees, whether it knows of the noise, and what it promises."""

    name: str
    sees_clean: bool
    noise_aware: bool
    guarantee: Corrected


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
    return [
        Method("CP (oracle)", True, False, SplitConformal()),
        Method("Noisy-CP", False, False, SplitConformal()),
        Method("NR-CP", False, True, Uncorrected()),
        Method("ACNL", False, True, ACNL(priors=even)),
        Method("CRCP", False, True, CRCP(priors=even)),
        Method("NACP", False, True, NACP(delta=delta)),
    ]
