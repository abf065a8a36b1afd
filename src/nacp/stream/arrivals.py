"""Points that come after a calibration: their labels, their shares, and what a monitor keeps of them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import replace
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from nacp import files
from nacp._types import Floats, Ints
from nacp.audit.checked_labels import open_clean
from nacp.calibration import Calibration
from nacp.checks import check_flag
from nacp.coverage.curve import inverse_of
from nacp.errors import InputError
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.noise import Noise, NoiseBasis, NoiseLike, Unsaid, noise_for
from nacp.points import Rows, check_given
from nacp.sets import PredictionSets

# Codes in place of a true label: it was not checked, or the checker could not decide.
NOT_CHECKED, UNDECIDED = -2, -1


class Labelling(NamedTuple):
    """How later labels are wrong."""

    noise: Noise | None  # None for correct labels
    basis: NoiseBasis | None  # the conditions under which an estimated model holds
    known: bool  # if the noise is not known, only checked labels are of use

    @classmethod
    def of(
        cls, noise: NoiseLike | Unsaid | Labelling, k: int, classes: Any, start: Calibration | None
    ) -> Labelling:
        """Return what `noise` states; if it states nothing, the noise of the calibration at the start."""
        if isinstance(noise, Labelling):  # from a file
            return noise
        if not isinstance(noise, Unsaid):
            return cls(noise_for(noise, k, classes=classes), getattr(noise, "basis", None), True)
        if start is None or (start.noise is not None and start.noise.by_row):
            return cls(None, None, False)
        return cls(start.noise, start.noise_basis, start.checked is None)


class Shares:
    """The shares of points in the coverage estimate, for given sets; upper bounds if W is not known exactly.

    For an interval of rates, a share is the larger one of those at both ends, as it is affine in
    ``rate / (1 - rate)``. For a radius, ``radius osc_q(x)`` is added. All possible shares lie in `range`.
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

    _format: ClassVar[str]
    _version: ClassVar[int] = 1
    _undecided: ClassVar[float]  # the share of a checked point whose label could not be decided
    _lock: ClassVar = Lock()  # of all objects, as a lock of its own could not be copied with one

    def _follow(self, calibration: Calibration, labelling: Labelling) -> None:
        self.calibration, self._labelling = calibration, labelling
        self._shares = Shares(labelling.noise, calibration.k)
        self._q, self.checked = calibration.native_threshold, 0

    @property
    def noise(self) -> Noise | None:
        """How later labels are wrong; None if they are correct, or if that is not known."""
        return self._labelling.noise

    def update(self, probs: ArrayLike, labels: ArrayLike | None = None, *, clean: Any = None) -> None:
        """Use the next points. If an argument is refused, nothing changes.

        Parameters
        ----------
        probs : array of shape (m, k)
            Class probabilities, as for `Calibration.predict_set`.
        labels : array of shape (m,) or (m, a), optional
            Noisy labels, as for `calibrate`. Without them only checked points are used.
        clean : array of shape (m,) or pair (rows, labels), optional
            The true labels of checked points, as for `calibrate`; they replace the noisy ones. "?" marks a
            label that could not be decided. It counts as a hit for a `Monitor`, so that it raises no alarm,
            and as a miss for an `OnlineCalibrator`. Which points are checked must not depend on their noisy
            labels; for a `Monitor` they must be picked at random.
        """
        rows, given, truth = self._open(probs, labels, clean)
        if not rows.n:
            return
        with self._lock:
            sets = replace(self.calibration, native_threshold=self._q).sets_of(rows)
            row = np.repeat(np.arange(rows.n), sets.sizes)
            hits = np.bincount(row[sets.labels == truth[row]], minlength=rows.n)
            shares = hits if given is None else self._shares.of(sets, given)
            shares = np.where(truth == NOT_CHECKED, shares, hits)
            self._use(np.where(truth == UNDECIDED, self._undecided, shares))
            self.checked += int(np.count_nonzero(truth != NOT_CHECKED))

    def _open(self, probs: Any, labels: Any, clean: Any) -> tuple[Rows, Ints | None, Ints]:
        """Return rows, given labels, and true labels or codes; without `labels`, of checked points only."""
        if labels is None and clean is None:
            raise InputError("labels", "or clean must be given: the points' noisy or checked labels")
        if labels is not None and not self._labelling.known:
            raise InputError(
                "noise",
                "is not known, so only checked labels can be used",
                remedy="pass noise= from the beginning (None for correct labels), or the checked labels "
                "alone, update(probs, clean=...)",
            )
        rows = self.calibration.open_rows(probs, least=0)
        n, k, classes = rows.n, self.calibration.k, self.calibration.classes
        numbers = None if labels is None else check_given(labels, n, k, classes)
        truth = np.full(n, NOT_CHECKED)
        if clean is not None:
            checked, true = open_clean(clean, n, k, classes, least=0)
            if numbers is None:
                return rows.some(checked), None, true
            truth[checked] = true
        return rows, numbers, truth

    @abstractmethod
    def _use(self, shares: Floats) -> None:
        """Use the shares of the next points at the threshold."""

    def _repr_html_(self) -> str:
        from nacp.show.html import card, told

        return card(type(self).__name__, told(str(self)))

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Return the state without the calibration and the noise, for a file."""

    @classmethod
    @abstractmethod
    def _of_state(cls, calibration: Calibration, noise: Any, state: dict[str, Any]) -> Self:
        """Return what was saved; `noise` is a `Labelling`."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state and the calibration to a JSON file, replaced if it exists; `load` reads it."""
        document = {"format": self._format, "version": self._version}
        labelling = {name: files.plain(each) for name, each in self._labelling._asdict().items()}
        document |= {"calibration": files.document_of(self.calibration), "labelling": labelling}
        with self._lock:
            document |= self._state()
        files.write_document(path, document)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, score: Any = None) -> Self:
        """Read what `save` wrote; nothing in the file is executed.

        A custom score is not in the file: pass its function as `score`.
        """
        document = files.read_document(path, f"file of {cls.__name__}", (cls._format,), cls._version)
        with files.reading(path):
            calibration = files.calibration_of(document["calibration"], score)
            stored, known = document["labelling"], check_flag("known", document["labelling"]["known"])
            noise = files.stored_noise(stored["noise"], calibration.k)
            labelling = Labelling(noise, files.stored_basis("basis", stored["basis"]), known)
            return cls._of_state(calibration, labelling, document)


def refuse_groups(name: str, calibration: Any) -> None:
    """Refuse a calibration with several thresholds."""
    if isinstance(calibration, GroupedCalibration):
        raise InputError(
            name,
            "has a threshold for each group, and only one can be followed",
            remedy=f"for groups of rows pass {name}.groups[...], and the points of that group",
        )
