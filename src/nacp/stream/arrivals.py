"""Points that come after a calibration: how they are opened, how their labels are wrong, and their shares."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from nacp._types import Floats, Ints
from nacp.audit.checked_labels import open_clean
from nacp.calibration import Calibration
from nacp.checks import check_flag
from nacp.coverage.curve import inverse_of
from nacp.errors import InputError
from nacp.files import (
    calibration_of,
    document_of,
    plain,
    read_document,
    reading,
    stored_basis,
    stored_noise,
    write_document,
)
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.noise import Noise, NoiseBasis, NoiseLike, Unsaid, basis_of, noise_for
from nacp.points import Rows, check_given
from nacp.sets import PredictionSets

# In place of the true label of a point: it was not checked; it was, and could not be decided.
NOT_CHECKED, UNDECIDED = -2, -1


class Arrivals(NamedTuple):
    """Points that came."""

    rows: Rows
    labels: Ints | None  # their noisy labels, of shape (n,) or (n, a), if there are any
    truth: Ints  # their true labels, or one of the codes above

    @property
    def checked(self) -> int:
        """How many labels were checked."""
        return int(np.count_nonzero(self.truth != NOT_CHECKED))


class Labelling(NamedTuple):
    """How labels to come are wrong."""

    noise: Noise | None  # None for labels that are right
    basis: NoiseBasis | None  # what a model that was estimated rests on
    known: bool  # whether the noise is known; if not, only checked labels are of use

    @classmethod
    def of(
        cls, noise: NoiseLike | Unsaid, k: int, classes: Sequence[Any] | None, calibration: Calibration | None
    ) -> Labelling:
        """Return what `noise` states, or else what a calibration was made with."""
        if not isinstance(noise, Unsaid):
            return cls(noise_for(noise, k, classes=classes), basis_of(noise), True)
        if calibration is None:
            return cls(None, None, False)
        return cls(calibration.noise, calibration.noise_basis, calibration.checked is None)

    @classmethod
    def from_dict(cls, stored: dict[str, Any], k: int) -> Labelling:
        """Return what `to_dict` described."""
        known = check_flag("known", stored["known"])
        return cls(stored_noise(stored["noise"], k), stored_basis("basis", stored["basis"]), known)

    def to_dict(self) -> dict[str, Any]:
        """Return what a file keeps."""
        return {"noise": plain(self.noise), "basis": plain(self.basis), "known": self.known}

    def open(self, calibration: Calibration, probs: Any, labels: Any, clean: Any) -> Arrivals:
        """Check points, read in the same way as those of a calibration; without labels, the checked ones."""
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
        n, k, classes = rows.n, calibration.k, calibration.classes
        numbers = None if labels is None else check_given(labels, n, k, classes)
        checked, true = np.empty((2, 0), dtype=np.int64)
        if clean is not None:
            checked, true = open_clean(clean, n, k, classes, least=0)
        if numbers is None:
            return Arrivals(rows.some(checked), None, true)
        truth = np.full(n, NOT_CHECKED)
        truth[checked] = true
        return Arrivals(rows, numbers, truth)


class Shares:
    """The share of a point in the estimate at one threshold: at the most, where W is not known exactly.

    For an interval of rates that is the larger one of both ends, as a share is affine in rate / (1 - rate);
    for a radius, ``radius osc_q(x)`` is added, as the mean of shares may be too small by that much. The least
    and the greatest possible share are the `range`.
    """

    def __init__(self, noise: Noise | None, k: int) -> None:
        self._noise, ends = noise, [None] if noise is None else noise.doubt.ends
        self._inverses = [[inverse_of(end, k, several) for end in ends] for several in (False, True)]
        every = [*self._inverses[0], *self._inverses[1]]
        lows, highs = zip(*(each.subset_range() for each in every), strict=True)
        more = 0.0 if noise is None else max(noise.doubt.shift(each) for each in self._inverses[0])
        self.range: tuple[float, float] = min(lows), max(highs) + more

    def of(self, sets: PredictionSets, labels: Ints) -> Floats:
        """Return the share of each point from its set and its label, or its several labels."""
        several, parts = labels.ndim == 2, None
        table = labels if several else labels[:, None]
        if several and self._noise is not None:
            table, parts = self._noise.spread(table)
        if parts is None:
            parts = (table >= 0) / np.maximum(np.count_nonzero(table >= 0, axis=1, keepdims=True), 1)
        row, shares = np.repeat(np.arange(len(sets)), sets.sizes), np.full(len(sets), -np.inf)
        for inverse in self._inverses[several]:
            found = np.zeros(len(sets))
            for column, part in zip(np.maximum(table, 0).T, parts.T, strict=True):
                weights = inverse.entries(column[row], sets.labels)
                found += part * np.bincount(row, weights, minlength=len(sets))
            shares = np.maximum(shares, found)
        if self._noise is not None and self._noise.doubt.radius:
            sums = np.asarray(sets) @ self._inverses[0][0].dense().T
            shares += self._noise.doubt.radius * np.ptp(sums, axis=1)
        return shares


class Follower(ABC):
    """An object that follows a calibration point by point, and can be saved and loaded."""

    calibration: Calibration
    _labelling: Labelling
    _shares: Shares
    _format: ClassVar[str]
    _version: ClassVar[int] = 1
    _lock: ClassVar = Lock()  # of all objects, as a lock of its own could not be copied with one

    @property
    def noise(self) -> Noise | None:
        """How the labels to come are wrong; None if they are right, or not known."""
        return self._labelling.noise

    def _shares_of(self, points: Arrivals, threshold: float, undecided: float) -> Floats:
        """Return the shares of points at a native threshold: of a checked one, whether it is a hit."""
        rows, given, truth = points
        sets = replace(self.calibration, native_threshold=threshold).sets_of(rows)
        row = np.repeat(np.arange(rows.n), sets.sizes)
        hits = np.bincount(row[sets.labels == truth[row]], minlength=rows.n)
        shares = hits if given is None else self._shares.of(sets, given)
        return np.where(truth == UNDECIDED, undecided, np.where(truth == NOT_CHECKED, shares, hits))

    def _repr_html_(self) -> str:
        from nacp.show.html import card, told

        return card(type(self).__name__, told(str(self)))

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Return what a file holds besides the calibration and the noise."""

    @abstractmethod
    def _restore(self, calibration: Calibration, labelling: Labelling, state: dict[str, Any]) -> None:
        """Become what was saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state and the calibration to a JSON file, replaced if it exists; `load` reads it."""
        document = {"format": self._format, "version": self._version}
        document |= {"calibration": document_of(self.calibration), "labelling": self._labelling.to_dict()}
        with self._lock:
            document |= self._state()
        write_document(path, document)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, score: Any = None) -> Self:
        """Read what `save` wrote; nothing in the file is executed.

        A custom score is not in the file: pass its function as `score`.
        """
        document = read_document(path, f"file of {cls.__name__}", (cls._format,), cls._version)
        with reading(path):
            calibration = calibration_of(document["calibration"], score)
            found = cls.__new__(cls)
            found._restore(calibration, Labelling.from_dict(document["labelling"], calibration.k), document)
        return found


def refuse_groups(name: str, calibration: Any) -> None:
    """Refuse a calibration that has several thresholds."""
    if isinstance(calibration, GroupedCalibration):
        raise InputError(
            name,
            "has a threshold for each group, and one is followed here",
            remedy=f"for groups of rows pass {name}.groups[...], and the points of that group",
        )
