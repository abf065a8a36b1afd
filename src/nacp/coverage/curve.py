"""The coverage curve: F^n, F^r and F^c at thresholds."""

from dataclasses import dataclass

from nacp._types import Floats


@dataclass(frozen=True, eq=False)
class CoverageCurve:
    """The three coverage estimates at thresholds.

    Attributes
    ----------
    thresholds : array of shape (m,)
        Ascending.
    noisy : array of shape (m,)
        F^n-hat: the share of noisy labels in the sets.
    random : array of shape (m,)
        F^r-hat: the mean set size divided by k.
    clean : array of shape (m,)
        F^c-hat: the estimated share of true labels in the sets. Not monotone, and a little outside
        of [0, 1] at times: it is an estimate.
    """

    thresholds: Floats
    noisy: Floats
    random: Floats
    clean: Floats

    def __len__(self) -> int:
        return len(self.thresholds)

    def __repr__(self) -> str:
        return f"CoverageCurve({len(self)} thresholds, {self.thresholds[0]:.6g} to {self.thresholds[-1]:.6g})"
