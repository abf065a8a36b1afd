"""The guarantees and the table of their names."""

from collections.abc import Callable

from nacp.checks import check_fraction
from nacp.errors import InputError
from nacp.guarantees.acnl import ACNL
from nacp.guarantees.base import Corrected, Finding, Found, Guarantee, Problem, find
from nacp.guarantees.binomial import Binomial
from nacp.guarantees.crcp import CRCP
from nacp.guarantees.expected import Expected
from nacp.guarantees.nacp import NACP
from nacp.guarantees.pac import PAC
from nacp.guarantees.split import SplitConformal
from nacp.guarantees.uncorrected import Uncorrected

__all__ = [
    "ACNL", "CRCP", "NACP", "PAC", "Binomial", "Corrected", "Expected", "Finding", "Found", "Guarantee",
    "Problem", "SplitConformal", "Uncorrected", "as_guarantee", "find", "names_of",
]  # fmt: skip

GUARANTEES: dict[str, type[Guarantee]] = {
    "none": Uncorrected,
    "split": SplitConformal,
    "pac": PAC,
    "binomial": Binomial,
    "expected": Expected,
    "nacp": NACP,
    "acnl": ACNL,
    "crcp": CRCP,
}
DEFAULT: type[Guarantee] = PAC
"""The guarantee of `calibrate` with a noise model, or with checked labels, if none is named."""


def as_guarantee(guarantee: str | Guarantee, delta: float | None = None) -> Guarantee:
    """Return the guarantee for a name or a guarantee object."""
    if isinstance(guarantee, Guarantee):
        if delta is not None:
            raise InputError(
                "delta", "is part of the guarantee object", remedy=f"pass it there, not beside {guarantee!r}"
            )
        return guarantee
    if not isinstance(guarantee, str) or guarantee.lower() not in GUARANTEES:
        raise InputError(
            "guarantee",
            f"must be one of {', '.join(map(repr, GUARANTEES))}",
            found=repr(guarantee),
            remedy="or pass a guarantee object such as nacp.ACNL(priors=...)",
            spoken="",
        )
    kind = GUARANTEES[guarantee.lower()]
    if delta is None:
        return kind()
    if kind.delta is None:
        raise InputError(
            "delta", f'has no effect on guarantee "{kind.name}", which has no probability of failure'
        )
    return kind(delta=check_fraction("delta", delta))  # type: ignore[call-arg]  # it has the field


def names_of(holds: Callable[[Guarantee], bool]) -> str:
    """Return the names of the guarantees that satisfy a condition; those without a promise come last.

    Examples
    --------
    >>> from nacp.guarantees import names_of
    >>> names_of(lambda guarantee: guarantee.takes_checked)
    '"pac", "expected" or "none"'
    """
    found = sorted(
        (each for each in (kind() for kind in GUARANTEES.values()) if holds(each)),
        key=lambda each: not each.promises_truth,
    )
    *names, last = (f'"{each.name}"' for each in found)
    return f"{', '.join(names)} or {last}" if names else last
