"""GroupedCalibration: a threshold for each group, of rows or of classes, and what they promise."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.calibration import Calibration
from nacp.engine import Spec
from nacp.errors import InputError
from nacp.guarantees import Guarantee
from nacp.points import Rows, check_aligned, known_groups
from nacp.points.arrays import is_lazy
from nacp.points.lazy import open_lazy
from nacp.sets import PredictionSets, gathered
from nacp.wrapping import counted, wrapped

if TYPE_CHECKING:
    from nacp.advice.diagnosis import Diagnosis, GroupedDiagnosis
    from nacp.noise import Noise
    from nacp.scores import Score

# How many groups are shown one by one.
_SHOWN = 30


@dataclass(frozen=True)
class GroupedCalibration:
    """A threshold for each group and what it promises; made by `calibrate` with ``groups=`` or ``by=``.

    Attributes
    ----------
    names : tuple
        The names of the groups.
    calibrations : tuple of Calibration
        One for each of them: `threshold`, `estimate`, `obstacle` and so on. Its `n` is the number of points
        of the group; of a group of classes, the number of given labels that are of these classes. Groups
        that were pooled have the same one.
    guarantee : Guarantee
        As asked for. If all groups hold at once, those of `calibrations` have a part of its delta.
    n : int
        The number of calibration points.
    members : tuple of int or None
        For groups of classes: of each class the place of its group among `names`. None for groups of rows.
    simultaneous : bool
        Whether the promise holds for all groups at once, or for each by itself.
    pooled : tuple
        The names of the groups that were too small, and were pooled to one.
    aside : int
        How many of the points were used to see which groups are small, and for nothing else.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=8000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.1).sample(labels, k=10, random_state=0)
    >>> hospital = ["north", "south", "south", "south"] * 2000
    >>> cal = nacp.calibrate(probs[:4000], noisy[:4000], noise=0.1, groups=hospital[:4000])
    >>> list(cal.thresholds), all(each.estimate > 0.9 for each in cal.groups.values())
    (['north', 'south'], True)
    >>> sets = cal.predict_set(probs[4000:], groups=hospital[4000:])
    >>> by_class = nacp.calibrate(probs[:4000], noisy[:4000], noise=0.1, by="class")
    >>> len(by_class.thresholds)
    10
    """

    names: tuple[Any, ...]
    calibrations: tuple[Calibration, ...] = field(repr=False)
    guarantee: Guarantee
    n: int
    members: tuple[int, ...] | None = field(default=None, repr=False)
    simultaneous: bool = False
    pooled: tuple[Any, ...] = ()
    aside: int = 0

    def __repr__(self) -> str:
        shown = {
            "names": listed(tuple(map(repr, self.names))),
            "pooled": listed(tuple(map(repr, self.pooled))),
        }
        return (
            f"GroupedCalibration(names=({shown['names']}), guarantee={self.guarantee!r}, n={self.n}, "
            f"simultaneous={self.simultaneous}, pooled=({shown['pooled']}), aside={self.aside})"
        )

    @property
    def groups(self) -> dict[Any, Calibration]:
        """The calibration of each group, by its name."""
        return dict(zip(self.names, self.calibrations, strict=True))

    @property
    def thresholds(self) -> dict[Any, float]:
        """The threshold of each group, on the scale of the score."""
        return {name: cal.threshold for name, cal in self.groups.items()}

    @property
    def alpha(self) -> float:
        """The sets are to contain the true class with probability 1 - alpha, in each group."""
        return self.calibrations[0].alpha

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.calibrations[0].k

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The class names."""
        return self.calibrations[0].classes

    @property
    def score(self) -> Score:
        """How pairs are scored."""
        return self.calibrations[0].score

    @property
    def noise(self) -> Noise | None:
        """The noise model."""
        return self.calibrations[0].noise

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the labels say against the noise model: empty if they do not contradict it."""
        return self.calibrations[0].warnings

    @property
    def infinite(self) -> tuple[Any, ...]:
        """The names of the groups in which no threshold keeps the promise; their sets hold all labels."""
        return tuple(name for name, cal in self.groups.items() if cal.obstacle is not None)

    @property
    def promise(self) -> str:
        """What is guaranteed, in one sentence."""
        said = replace(self.calibrations[0], guarantee=self.guarantee).promise
        number = len({id(cal) for cal in self.calibrations})
        what = "" if self.members is None else " of classes"
        if self.simultaneous and number > 1:
            said = f"in all {number:,} groups{what} at once (each was tested at delta/{number:,}): {said}"
        else:
            said = f"in each group{what} by itself: {said}"
        if len(self.pooled) > 1:
            said += f", where {listed(self.pooled)} are one group, as they are small"
        return said

    @property
    def assumptions(self) -> str:
        """What the promise rests on, in words."""
        cal = self.calibrations[0]
        if cal.checked is not None:
            cal = replace(cal, checked=sum(each.checked or 0 for each in self.calibrations))
        said = cal.assumptions
        if self.members is None and self.noise is not None:
            said += "; in each group the noise is the same, given the true class"
        return said

    def open_rows(self, probs: ArrayLike, name: str = "probs", least: int = 1, start: int = 0) -> Rows:
        """Check rows that are to be seen as the calibration points were."""
        return self.calibrations[0].open_rows(probs, name, least, start)

    @property
    def row_options(self) -> dict[str, Any]:
        """What `open_rows` has to know of the calibration points, to see other rows as these."""
        return self.calibrations[0].row_options

    def predict_set(self, probs: Any, *, groups: Any = None, allow_empty: bool = True) -> PredictionSets:
        """Return the prediction sets of new inputs.

        Parameters
        ----------
        probs : array of shape (m, k)
            As in `Calibration.predict_set`.
        groups : array of shape (m,)
            The group of each input, if groups are of rows. A group that was not calibrated is refused.
        allow_empty : bool, default=True
            As in `Calibration.predict_set`.

        Returns
        -------
        PredictionSets
        """
        lazy = is_lazy(probs)
        rows: Any = open_lazy(probs, least=0, **self.row_options) if lazy else self.open_rows(probs, least=0)
        places: Ints | None = None
        check_aligned(groups, probs)
        if self.members is None:
            places = known_groups(groups, rows.n, self.names)
        elif groups is not None:
            raise InputError("groups", "has no effect: thresholds differ by class, not by row")
        if not lazy:
            return self.sets_of(rows, places=places, allow_empty=allow_empty)
        shared = self.score.spec, self._natives, self.members, allow_empty
        parts = rows.map(partial(_parts, *shared), *([] if places is None else [places]))
        return self._gathered([part for chunk in parts for part in chunk])

    def sets_of(self, rows: Rows, *, places: Ints | None, allow_empty: bool = True) -> PredictionSets:
        """Return the prediction sets of rows that have been checked, of which each has its group."""
        parts = _parts(self.score.spec, self._natives, self.members, allow_empty, rows, places)
        return self._gathered(parts)

    @property
    def _natives(self) -> Floats:
        return np.array([each.native_threshold for each in self.calibrations])

    def _gathered(self, parts: list[tuple[Ints, Array]]) -> PredictionSets:
        return gathered(parts, k=self.k, classes=self.classes, alpha=self.alpha)

    def diagnose(
        self, probs: ArrayLike, labels: ArrayLike, *, groups: Any = None, level: float = 0.05
    ) -> Diagnosis | GroupedDiagnosis:
        """Ask whether the noise model can be right, in each group of rows; see `nacp.diagnose`."""
        from nacp.advice.diagnosis import diagnose

        return diagnose(self, probs, labels, groups=groups, level=level)

    def places(self, labels: Ints, groups: Any = None) -> Ints:
        """Return the place among `names` of the group of each point: by its group, or by its label."""
        if self.members is None:
            return known_groups(groups, len(labels), self.names)
        return np.array(self.members)[labels]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration to a JSON file; `load` reads it back.

        Parameters
        ----------
        path : path
            The file; replaced if it exists.
        """
        from nacp.files import save_grouped

        save_grouped(self, path)

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return for each group its name, points, threshold and estimated coverage, or why there is none.

        Where labels were checked, the points are those.
        """
        found = []
        for name, cal in self.groups.items():
            pooled = " (pooled)" if name in self.pooled else ""
            points = f"{cal.n if cal.checked is None else cal.checked:,}"
            if cal.obstacle is None:
                found.append((f"{name}{pooled}", points, f"{cal.threshold:.6g}", f"{cal.estimate:.4f}"))
            else:
                found.append((f"{name}{pooled}", points, "all labels", cal.obstacle))
        return found

    def __str__(self) -> str:
        cal, rows = self.calibrations[0], self.table()
        named = "given" if cal.noise is None else "noisy"
        who = "rows" if self.members is None else "classes"
        counts = "points" if cal.checked is None else "checked"
        shown = [("group", counts, "threshold", "estimated coverage"), *rows[:_SHOWN]]
        widths = [max(len(row[i]) for row in shown) for i in range(3)]
        lines = "\n".join(
            wrapped(f"{name:<{widths[0]}}  {points:>{widths[1]}}  {threshold:>{widths[2]}}  {last}", "    ")
            for name, points, threshold, last in shown
        )
        more = f"\nand {len(rows) - _SHOWN:,} groups more" if len(rows) > _SHOWN else ""
        warned = "".join(f"Warning: {sentence}.\n" for sentence in self.warnings)
        source = f"{counted(self.n, f'{named} label')} of {cal.k:,} classes"
        if cal.checked is not None:
            checked = sum(each.checked or 0 for each in self.calibrations)
            source = f"{counted(self.n, 'label')} of {cal.k:,} classes, {checked:,} of them checked"
        head = wrapped(
            f"{warned}Sets {{l : S(x, l) <= the threshold of its group}}, {counted(len(rows), 'group')} of "
            f"{who}, S = {cal.score!r}, from {source}."
        )
        tail = wrapped(f"Promised ({self.guarantee!r}): {self.promise}. Assumed: {self.assumptions}.")
        return f"{head}\n{lines}{more}\n{tail}"

    def _repr_html_(self) -> str:
        from nacp.show.html import grouped

        return grouped(self)


def _parts(
    spec: Spec, natives: Floats, members: tuple[int, ...] | None, allow_empty: bool, rows: Rows,
    places: Ints | None = None,
) -> list[tuple[Ints, Array]]:  # fmt: skip
    """Return the sets of rows, block by block, given the threshold of each group."""

    def sets(values: Array, where: slice | Ints) -> tuple[Ints, Array]:
        if places is None:
            return engine.sets(values, spec, natives[None, list(members or ())], allow_empty)
        return engine.sets(values, spec, natives[places[where]][:, None], allow_empty)

    return list(rows.map(sets))


def listed(names: tuple[Any, ...]) -> str:
    """Return names in words, the first of many."""
    shown = ", ".join(map(str, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5:,} more"
