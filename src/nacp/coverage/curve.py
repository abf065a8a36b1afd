"""The coverage curve: F^n, F^r and F^c at thresholds."""

from dataclasses import dataclass, replace

import numpy as np

from nacp._types import Bools, Floats


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
        F^c-hat: the estimated share of true labels in the sets. Not monotone, and outside of [0, 1] at
        times: a little by chance, and by more if the noise model is wrong.
    outside : array of shape (m,) or None
        Where `clean` lay outside of [0, 1] and was cut off, as in ``Calibration.curve`` and wherever a curve
        is shown; None if it stands as it came out, as `coverage_curve` returns it.
    """

    thresholds: Floats
    noisy: Floats
    random: Floats
    clean: Floats
    outside: Bools | None = None

    def cut(self) -> "CoverageCurve":
        """Return the curve with `clean` cut off at 0 and 1.

        Examples
        --------
        >>> import nacp
        >>> curve = nacp.coverage_curve([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]], [0, 1], noise=0.3)
        >>> curve.clean.round(3).tolist(), curve.cut().clean.tolist(), curve.cut().outside.tolist()
        ([1.286], [1.0], [True])
        """
        if self.outside is not None:
            return self
        shown = np.clip(self.clean, 0.0, 1.0)
        # Where all labels are in the sets, sums that round may miss 1 by a hair.
        return replace(self, clean=shown, outside=np.abs(self.clean - shown) > 1e-9)

    def __len__(self) -> int:
        return len(self.thresholds)

    def __repr__(self) -> str:
        return f"CoverageCurve({len(self)} thresholds, {self.thresholds[0]:.6g} to {self.thresholds[-1]:.6g})"
