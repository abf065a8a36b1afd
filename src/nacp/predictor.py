"""Predictor: the prediction set of one input at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp.errors import InputError
from nacp.points.arrays import is_lazy
from nacp.points.opening import SUM_TOLERANCE
from nacp.sets import PredictionSets

if TYPE_CHECKING:
    from nacp.calibration import Calibration


class Predictor:
    """The prediction set of one input at a time, with little overhead; made by `Calibration.predictor`.

    The result is that of `Calibration.predict_set`, which serves rows that must be converted.

    Parameters
    ----------
    calibration : Calibration
        The calibration.
    allow_empty : bool, default=True
        As in `Calibration.predict_set`.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], labels[:2000], noise=None, score="aps")
    >>> predict = cal.predictor()
    >>> predict(probs[2000]) == cal.predict_set(probs[2000:])[0]
    True
    """

    def __init__(self, calibration: Calibration, allow_empty: bool = True) -> None:
        if not hasattr(calibration, "native_threshold"):
            raise InputError(
                "calibration",
                "has a threshold for each group, and a predictor uses one",
                remedy="pass calibration.groups[...] for a group of rows, or call its predict_set",
            )
        cal = self._calibration = calibration
        self._allow_empty = allow_empty
        self._spec, self._threshold = cal.score.spec, np.array([[cal.native_threshold]])
        plain = cal.score.takes_probabilities and not cal.normalize and not cal.from_logits
        self._dtype = np.dtype(cal.widths.given) if plain and cal.widths is not None else None
        self._shape = (cal.k,)

    def __call__(self, probs: ArrayLike) -> list[Any]:
        """Return the labels in the set of one input, as names or numbers.

        `probs` has its k class probabilities: of shape (k,), or (1, k) as `predict_proba` returns them.
        """
        # A dtype compared with None would be one compared with float64.
        if (
            self._dtype is not None
            and type(probs) is np.ndarray
            and probs.dtype == self._dtype
            and probs.shape == self._shape
        ):
            row: Any = probs[None]
            if engine.of(row).check(row, SUM_TOLERANCE):
                labels = engine.of(row).sets(row, self._spec, self._threshold, self._allow_empty)[1].tolist()
                names = self._calibration.classes
                return labels if names is None else [names[number] for number in labels]
        row = [probs]
        if np.shape(probs) == (1, *self._shape):
            row = probs
        elif hasattr(probs, "to_frame"):  # of a table, with the names of its columns
            row = probs.to_frame().T
        elif hasattr(probs, "shape"):
            row = (np.asarray(probs) if is_lazy(probs) else probs)[None]  # type: ignore[index]
        sets: PredictionSets = self._calibration.predict_set(row, allow_empty=self._allow_empty)
        return sets[0]

    def __repr__(self) -> str:
        return f"Predictor({self._calibration!r})"
