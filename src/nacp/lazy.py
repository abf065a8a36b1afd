"""LazySets: the prediction sets of a dask array, made chunk by chunk when somebody asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nacp._types import Ints
from nacp.errors import InputError
from nacp.points.lazy import LazyRows, Part, numbered, open_lazy
from nacp.sets import PredictionSets, set_counts

if TYPE_CHECKING:
    from nacp.calibration import Calibration
    from nacp.grouped import GroupedCalibration


class LazySets:
    """The prediction sets of the rows of a dask array, not made yet; from `Calibration.predict_set`.

    Rows are checked when the sets are made. `evaluate` counts them where they are.

    Parameters
    ----------
    calibration : Calibration
        What they are made with.
    probs : dask array of shape (n, k)
        In chunks of whole rows.
    allow_empty : bool, default=True
        As in `Calibration.predict_set`.
    places : array of shape (n,), optional
        The group of each row, where thresholds differ by group.

    Examples
    --------
    >>> import dask.array as da
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=3000, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], labels[:2000], noise=None)
    >>> sets = cal.predict_set(da.from_array(probs[2000:], chunks=(300, -1)))
    >>> sets
    LazySets(n=1000, k=10, chunks=4)
    >>> bool(nacp.evaluate(sets, labels[2000:]).coverage > 0.85)
    True
    >>> sets.compute().to_lists() == cal.predict_set(probs[2000:]).to_lists()
    True
    """

    def __init__(
        self,
        calibration: Calibration | GroupedCalibration,
        probs: Any,
        allow_empty: bool = True,
        places: Ints | None = None,
    ) -> None:
        self._calibration, self._probs, self._places = calibration, probs, places
        self._allow_empty, self._chunks = allow_empty, len(self._rows().sizes)
        self.k, self.classes, self.alpha = calibration.k, calibration.classes, calibration.alpha

    def _rows(self, labels: Any = None) -> LazyRows:
        return open_lazy(self._probs, labels, least=0, **self._calibration.row_options)

    def _more(self, rows: LazyRows) -> list[Any]:
        """Return the groups of the rows of each chunk, if they have some."""
        if self._places is None:
            return [(None,)] * self._chunks
        return [(places,) for places in rows.cut(self._places)]

    def compute(self) -> PredictionSets:
        """Make all sets, and return them: these are in memory, the probabilities are not.

        Returns
        -------
        PredictionSets
        """
        rows = self._rows()
        if not self._chunks:
            nothing = self._calibration.open_rows(np.empty((0, self.k), dtype=self._probs.dtype), least=0)
            return self._calibration.sets_of(nothing, places=self._places)
        shared = self._calibration, self._allow_empty
        sizes, labels = rows.joined(_ragged, _chained, shared, None, self._more(rows))
        offsets = np.append(0, np.cumsum(sizes))
        return PredictionSets(offsets, labels, k=self.k, classes=self.classes, alpha=self.alpha)

    def to_delayed(self) -> list[Any]:
        """Return the sets of each chunk by themselves, to write them to files for example.

        Returns
        -------
        list of dask.delayed.Delayed
            Each gives `PredictionSets`.
        """
        from dask.delayed import delayed

        rows, made = self._rows(), delayed(_made, pure=False)
        nothing = [None] * self._chunks
        every = rows.mapped(_sets, (self._calibration, self._allow_empty), nothing, self._more(rows))
        return [made(each) for each in every]

    def to_dask(self) -> Any:
        """Return the sets as a dask array of booleans.

        Returns
        -------
        dask array of shape (n, k)
        """
        import dask.array as arrays
        from dask.delayed import delayed

        da: Any = arrays
        matrix = delayed(np.asarray, pure=False)
        parts = [
            da.from_delayed(matrix(sets), (int(size), self.k), dtype=bool)
            for sets, size in zip(self.to_delayed(), self._rows().sizes, strict=True)
        ]
        return da.concatenate(parts) if parts else da.zeros((0, self.k), dtype=bool)

    def counted(self, labels: Any, numbers: Ints) -> Ints:
        """Return what ``nacp.sets.counts_of`` does, given labels and their numbers; no set comes here."""
        rows = self._rows(labels)
        given, classes = rows.given(numbers)
        shared = self._calibration, self._allow_empty, classes
        counts: Ints = rows.joined(_counted, sum, shared, given, self._more(rows))
        return counts

    def __len__(self) -> int:
        return int(self._probs.shape[0])

    def __repr__(self) -> str:
        return f"LazySets(n={len(self)}, k={self.k}, chunks={self._chunks})"


def _sets(part: Part, calibration: Calibration | GroupedCalibration, allow_empty: bool) -> PredictionSets:
    rows = calibration.open_rows(part.matrix, start=part.start)
    return calibration.sets_of(rows, places=part.more[0], allow_empty=allow_empty)


def _ragged(part: Part, *shared: Any) -> tuple[Ints, Any]:
    sets = _sets(part, *shared)
    return sets.sizes, sets.labels


def _chained(parts: list[tuple[Ints, Any]]) -> tuple[Any, ...]:
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def _counted(
    part: Part, calibration: Calibration | GroupedCalibration, allow_empty: bool, classes: Any
) -> Ints:
    numbers = numbered(part, calibration.k, classes)
    return set_counts(_sets(part, calibration, allow_empty), numbers)


def _made(found: PredictionSets | InputError) -> PredictionSets:
    if isinstance(found, InputError):
        raise found
    return found
