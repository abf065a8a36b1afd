"""Plots for notebooks, in the manner of scikit-learn's displays; they need the extra ``nacp[plot]``.

A display holds the numbers. `plot` draws them on given axes or on new ones, and keeps what it drew in
attributes that end in ``_``.
"""

from nacp.show.displays.correction import CorrectionDisplay
from nacp.show.displays.coverage import CoverageDisplay
from nacp.show.displays.sensitivity import SensitivityDisplay
from nacp.show.displays.sizes import SetSizeDisplay

__all__ = ["CorrectionDisplay", "CoverageDisplay", "SensitivityDisplay", "SetSizeDisplay"]
