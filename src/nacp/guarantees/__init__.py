"""The guarantees, and the table of their names."""

from nacp._validation import check_fraction
from nacp.guarantees.acnl import ACNL
from nacp.guarantees.base import Corrected, Finding, Guarantee, Problem
from nacp.guarantees.binomial import Binomial
from nacp.guarantees.crcp import CRCP
from nacp.guarantees.expected import Expected
from nacp.guarantees.nacp import NACP
from nacp.guarantees.pac import PAC
from nacp.guarantees.split import SplitConformal
from nacp.guarantees.uncorrected import Uncorrected

__all__ = [
    "ACNL", "CRCP", "NACP", "PAC", "Binomial", "Corrected", "Expected", "Finding", "Guarantee", "Problem",
    "SplitConformal", "Uncorrected",
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


def as_guarantee(guarantee: str | Guarantee, delta: float | None = None) -> Guarantee:
    """Return the guarantee that a name or a guarantee object stands for."""
    if isinstance(guarantee, Guarantee):
        if delta is not None:
            raise ValueError(
                f"delta is part of the guarantee object; pass it there, not beside {guarantee!r}"
            )
        return guarantee
    if not isinstance(guarantee, str) or guarantee.lower() not in GUARANTEES:
        raise ValueError(
            f"guarantee is {guarantee!r}; it must be one of {', '.join(map(repr, GUARANTEES))} "
            "or a guarantee object such as nacp.ACNL(priors=...)"
        )
    kind = GUARANTEES[guarantee.lower()]
    return kind() if delta is None else kind.with_delta(check_fraction("delta", delta))
