"""Points that come after a calibration: how they are opened, and what is known of their labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nacp._types import Ints
from nacp.calibration import Calibration
from nacp.checks import check_flag
from nacp.errors import InputError
from nacp.files import rebuild, stored_basis
from nacp.noise import NOISES, Noise, NoiseBasis, NoiseLike, Unsaid, basis_of, noise_for
from nacp.points import Rows, check_given, open_clean

# In place of the true label of a point: it was not checked; it was, and could not be decided.
NOT_CHECKED, UNDECIDED = -2, -1


class Arrivals(NamedTuple):
    """Points that came.

    Attributes
    ----------
    rows : Rows
        Their probabilities.
    labels : array of shape (n,) or (n, a), or None
        Their noisy labels, if there are any.
    truth : array of shape (n,)
        Their true labels, or why there is none.
    """

    rows: Rows
    labels: Ints | None
    truth: Ints

    @property
    def checked(self) -> int:
        """How many labels were checked."""
        return int(np.count_nonzero(self.truth != NOT_CHECKED))


class Labelling(NamedTuple):
    """How labels to come are wrong.

    Attributes
    ----------
    noise : Noise or None
        The model; None for labels that are right.
    basis : NoiseBasis or None
        What a model that was estimated rests on.
    known : bool
        Whether that much is known. If not, only checked labels are of use.
    """

    noise: Noise | None
    basis: NoiseBasis | None
    known: bool

    @classmethod
    def of(cls, noise: NoiseLike | Unsaid, k: int, calibration: Calibration | None) -> Labelling:
        """Return what is said, or else what a calibration says."""
        if not isinstance(noise, Unsaid):
            return cls(noise_for(noise, k), basis_of(noise), True)
        if calibration is None:
            return cls(None, None, False)
        return cls(calibration.noise, calibration.noise_basis, calibration.checked is None)

    @classmethod
    def from_dict(cls, stored: dict[str, Any], k: int) -> Labelling:
        """Return what `to_dict` returned."""
        noise = None if stored["noise"] is None else rebuild("noise", NOISES, stored["noise"])
        return cls(noise_for(noise, k), stored_basis(stored["basis"]), check_flag("known", stored["known"]))

    def to_dict(self) -> dict[str, Any]:
        """Return it for a file."""
        noise, basis = self.noise, self.basis
        return {
            "noise": None if noise is None else noise.to_dict(),
            "basis": None if basis is None else basis._asdict(),
            "known": self.known,
        }

    def open(self, calibration: Calibration, probs: Any, labels: Any, clean: Any) -> Arrivals:
        """Check points that are to be seen as those of a calibration were."""
        if labels is None and clean is None:
            raise InputError("labels", "or clean must be given: the points' noisy or checked labels")
        if labels is not None and not self.known:
            raise InputError(
                "noise",
                "is not known, and without it labels that were not checked say nothing",
                remedy="pass noise= from the beginning (None for labels that are right), or the checked "
                "labels alone, update(probs, clean=...)",
            )
        rows = calibration.open_rows(probs, least=0)
        k, classes = calibration.k, calibration.classes
        numbers = None if labels is None else check_given(labels, rows.n, k, classes)
        truth = np.full(rows.n, NOT_CHECKED)
        if clean is not None:
            checked, true = open_clean(clean, rows.n, k, classes, least=0)
            truth[checked] = true
        return Arrivals(rows, numbers, truth)
