"""Calibrator: calibration from points that come in batches. It keeps tallies, which add and subtract."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from threading import Lock
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from nacp import files
from nacp._types import Ints
from nacp.calibrate import chosen_guarantee
from nacp.calibration import Calibration, calibrations, warn_of_obstacles
from nacp.checks import check_alphas, check_choice, check_count, check_flag
from nacp.coverage.counted import Chunk, count_lazy, weights_under
from nacp.coverage.curve import RULES, Rule
from nacp.coverage.grid import CELLS, COARSE, GRID
from nacp.coverage.tally import MOST_POINTS, PART, Tally, Weights
from nacp.errors import InputError
from nacp.guarantees import Guarantee
from nacp.noise import NoiseLike, as_noise, noise_for
from nacp.points import (
    check_aligned,
    check_classes,
    check_given,
    column_names,
    open_rows,
    warn_of_repeats,
)
from nacp.points.arrays import is_lazy
from nacp.points.lazy import open_lazy
from nacp.scores import Score, ScoreLike, as_score

_SETTINGS = ("k", "noise", "score", "classes", "normalize", "from_logits")
_FORMAT, _VERSION = "nacp.calibrator", 1
_ADDING = Lock()  # of all calibrators, as a lock of its own could not be copied with a calibrator
_ARRAYS = ("by_label", "cells", "hits", "pairs", "gains", "losses", "squares")


class _Options(TypedDict, total=False):
    guarantee: str | Guarantee | None
    delta: float | None
    crossing: Rule


class Calibrator:
    """Calibrate from points that come in batches. Memory use does not grow with their number.

    Thresholds equal those of `calibrate` to the last bit, in batches of any size, with one exception: for
    "split", `calibrate` returns the score of a label, and a `Calibrator` the next point of the grid. States
    of different points are added by ``+`` or `merge`, and subtracted by ``-``. Several threads may update.

    Parameters
    ----------
    k : int, optional
        The number of classes. By default that of `classes`, or of the columns of the first batch.
    noise, score, classes, normalize, from_logits
        As in `calibrate`. If the first batch is a table, its column names are the classes.

    Attributes
    ----------
    n : int
        The number of points that were counted.

    See Also
    --------
    calibrate : The same from all points at once, with "pac", which looks at them in a random order.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=100, random_state=0)
    >>> stream = nacp.Calibrator(noise=0.2, score="raps")
    >>> for start in range(0, 4000, 500):
    ...     stream.update(probs[start : start + 500], noisy[start : start + 500])
    >>> cal = stream.finish(alpha=0.1)
    >>> whole = nacp.calibrate(probs, noisy, noise=0.2, score="raps", guarantee="binomial")
    >>> cal.guarantee, cal.threshold == whole.threshold
    (Binomial(delta=0.05), True)
    """

    def __init__(
        self,
        k: int | None = None,
        *,
        noise: NoiseLike,
        score: ScoreLike = "hps",
        classes: Any = None,
        normalize: bool = False,
        from_logits: bool = False,
    ) -> None:
        self.score, self._noise, self._basis = as_score(score), noise, getattr(noise, "basis", None)
        self.normalize = check_flag("normalize", normalize)
        self.from_logits = check_flag("from_logits", from_logits)
        self._counts: Chunk | None = None
        self._looks, self._looked_at = 0, 0  # how often `finish` found more points, and the last number
        if k is None:
            self._set_classes(0 if classes is None else np.size(classes), classes)
        else:
            self._set_classes(check_count("k", k, 2), classes)

    def _set_classes(self, k: int, classes: Any) -> None:
        """Set what depends on the number of classes; it is 0 as long as it is not known."""
        self.k, self.classes = k, check_classes(classes, k)
        self.noise = noise_for(self._noise, k, classes=self.classes) if k else as_noise(self._noise)
        open_rows(np.empty((0, k or 2)), **self._options)  # refuses settings that exclude each other
        weights = weights_under(self.noise, k, several=False).values() if k else ()
        # Squared sizes of sets are of use where all pairs have the same weight.
        self._constant = all(each.constant is not None for each in weights)

    def _for_batch(self, probs: Any) -> Calibrator:
        """Return this state with the classes known, which the first batch may tell."""
        classes = column_names(probs, self.classes) if self._counts is None else self.classes
        if self.k and classes is self.classes:
            return self
        ready, options = copy(self), self._options | {"classes": classes}
        ready._set_classes((open_lazy if is_lazy(probs) else open_rows)(probs, **options).k, classes)
        return ready

    @property
    def n(self) -> int:
        return 0 if self._counts is None else self._counts.n

    def update(self, probs: ArrayLike, labels: ArrayLike) -> None:
        """Count some points; if there is anything wrong with one of them, none is counted.

        Parameters
        ----------
        probs : array of shape (m, k)
            As in `calibrate`. Any number of rows, also none; of the same type in all batches. The chunks of a
            dask array are counted where they are.
        labels : array of shape (m,) or (m, a)
            Their noisy labels, as in `calibrate`.
        """
        check_aligned(labels, probs, said="labels")
        ready = self._for_batch(probs)
        self.merge(ready._holding(ready._counted(probs, labels)))

    def _counted(self, probs: Any, labels: Any) -> Chunk | None:
        """Count points, those of a dask array where its chunks are; None if there are none."""
        lazy, how = is_lazy(probs), (self.noise, self.score, self.classes, self._constant)
        rows: Any = (open_lazy if lazy else open_rows)(probs, **self._options)
        if not rows.n:
            check_given(labels, 0, self.k, self.classes)
            return None
        if not lazy:
            warn_of_repeats(rows)
        return (count_lazy if lazy else Chunk.of)(rows, labels, *how)

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "probabilities": self.score.takes_probabilities,
            "normalize": self.normalize,
            "from_logits": self.from_logits,
            "k": self.k or None,
            "classes": self.classes,
            "least": 0,
        }

    @overload
    def finish(self, *, alpha: float = ..., **options: Unpack[_Options]) -> Calibration: ...
    @overload
    def finish(self, *, alpha: Sequence[float], **options: Unpack[_Options]) -> list[Calibration]: ...
    def finish(
        self,
        *,
        alpha: float | Sequence[float] = 0.1,
        guarantee: str | Guarantee | None = None,
        delta: float | None = None,
        crossing: Rule = "last",
    ) -> Calibration | list[Calibration]:
        """Find the threshold for the points that have come so far; more may come later.

        A promise holds for each number of points that was fixed beforehand, not if you stop as soon as a
        result pleases: `assumptions` says which look it is, and for j looks together pass delta/j.

        Parameters
        ----------
        alpha, guarantee, delta, crossing
            As in `calibrate`, but for "pac". The default of `guarantee` is "binomial" for uniform noise,
            "expected" for other noise, and "split" for ``noise=None``.

        Returns
        -------
        Calibration, or a list of them if `alpha` is a sequence
        """
        check_choice("crossing", crossing, RULES)
        counts = self._counts
        if counts is None:
            raise InputError("probs", "has no points yet", remedy="call update first")
        several = counts.several is not None
        chosen = chosen_guarantee(guarantee, delta, self.noise, again=False, several=several)
        chosen.check_applies(self.noise, crossing)
        chosen.check_several(several=several)
        alphas = check_alphas(alpha)
        noise_for(self.noise, self.k, counts.n)
        known = {name: getattr(self, name) for name in ("classes", "normalize", "from_logits")}
        known |= {"noise_basis": self._basis, "widths": counts.widths, "several": counts.several}
        with _ADDING:
            self._looks += counts.n != self._looked_at
            self._looked_at = counts.n
            known["look"] = self._looks
        tallies = counts.counted(self.noise, self.score)
        found = calibrations(tallies, chosen, self.noise, alphas, crossing, **known)
        warn_of_obstacles(found)
        return found[0] if np.ndim(alpha) == 0 else found

    def fresh(self) -> Calibrator:
        """Return an empty state with the same settings: for another worker, or the next hour."""
        return self._holding(None)

    def _holding(self, counts: Chunk | None) -> Calibrator:
        found = copy(self)
        found._counts, found._looks, found._looked_at = counts, 0, 0
        return found

    def merge(self, other: Calibrator) -> None:
        """Add the counts of another state with the same settings, in place."""
        with _ADDING:
            total = self + other
            if self._counts is None:
                self._set_classes(total.k, total.classes)
            self._counts = total._counts

    def __add__(self, other: Calibrator) -> Calibrator:
        self._check_same(other)
        ours, theirs = self._counts, other._counts
        if theirs is None:
            return self._holding(ours)
        if ours is None:
            return other._holding(theirs)
        most, found = self._most_points(ours), ours + theirs
        if found.n > most:
            raise InputError("probs", f"must have at most {most:,} rows in all, so that all sums are exact")
        return self._holding(found)

    def __radd__(self, other: object) -> Calibrator:
        # Python's sum() begins with 0.
        return self._holding(self._counts) if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: Calibrator) -> Calibrator:
        self._check_same(other)
        ours, theirs = self._counts, other._counts
        if theirs is None:
            return self._holding(ours)
        found = None
        if ours is not None:
            with suppress(InputError):
                found = ours - theirs
        if found is None or not self._possible(found):
            problem = "holds points that were never added, so they cannot be taken away"
            raise InputError("other", problem, found=f"{theirs.n:,} points")
        return self._holding(found if found.n else None)

    def _most_points(self, counts: Chunk) -> int:
        """Return the number of points up to which no sum of whole numbers can overflow."""
        most = (1 << 62) // self.k**2
        return min(most, MOST_POINTS) if counts.tallies[0].squares is None else most

    def _possible(self, counts: Chunk) -> bool:
        """Return whether the counts have the form of those of some points."""
        several = counts.several is not None
        weights = weights_under(self.noise, self.k, several).values()
        squares = self._constant and not several
        each = zip(counts.tallies, weights, strict=True)
        return all(_is_possible(tally, own, several, squares) for tally, own in each)

    def _check_same(self, other: object) -> None:
        """Refuse a state that does not belong to this one."""
        if not isinstance(other, Calibrator):
            raise InputError("other", "must be a Calibrator", found=f"{type(other).__name__}")
        for name in _SETTINGS:
            ours, theirs = getattr(self, name), getattr(other, name)
            empty = (self._counts is None and not ours) or (other._counts is None and not theirs)
            if ours is not theirs and ours != theirs and not (empty and name in ("k", "classes")):
                raise InputError("other", f"must have the same {name}, {ours!r}", found=repr(theirs))
        if self._counts is None or other._counts is None:
            return
        if (self._counts.several is None) != (other._counts.several is None):
            each = "one label" if self._counts.several is None else "several labels"
            raise InputError("labels", f"must have {each} for each point, as before")
        given, found = self._counts.widths.given, other._counts.widths.given
        if given != found:
            raise InputError("probs", f"must be {given}, as the points before were", found=found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibrator) and all(
            getattr(self, name) == getattr(other, name) for name in (*_SETTINGS, "_counts")
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Calibrator({self.k}, noise={self.noise!r}, score={self.score!r}, n={self.n:,})"

    def save(self, path: files.File) -> None:
        """Write the state to a JSON file, which is replaced if it exists; `Calibrator.load` reads it."""
        if not self.k:
            raise InputError("k", "is not known before the first batch", remedy="pass k=")
        files.check_storable(self.classes)
        counts = self._counts  # once: other threads may update
        document = {"format": _FORMAT, "version": _VERSION, "grid": _grid_digest()}
        document |= {name: files.plain(getattr(self, name)) for name in _SETTINGS}
        document |= {"noise_basis": files.plain(self._basis), "looks": [self._looks, self._looked_at]}
        document["n"] = 0 if counts is None else counts.n
        if counts is not None:
            document |= {"several": counts.several is not None, "widths": counts.widths}
            document["tallies"] = [
                {name: _packed(getattr(tally, name)) for name in _ARRAYS} for tally in counts.tallies
            ]
        files.write_document(path, document)

    @classmethod
    def load(cls, path: files.File, *, score: Score | Callable[..., Any] | None = None) -> Calibrator:
        """Read a state that `save` wrote; a file that is damaged or not of this kind is refused.

        Nothing in the file is executed. A custom score is not in the file: pass its function as `score`.
        """
        document = files.read_document(path, "file of a Calibrator", (_FORMAT,), _VERSION)
        with files.reading(path):
            k = files.stored_k(document["k"])
            noise = files.stored_noise(document["noise"], k)
            score = files.stored_score(dict(document["score"]), score)
            options = {name: document[name] for name in ("classes", "normalize", "from_logits")}
            found = cls(k, noise=noise, score=score, **options)
            found._basis = files.stored_basis("noise_basis", document["noise_basis"])
            if document["grid"] != _grid_digest():
                remedy = "count the points again, or use the version that wrote it"
                raise InputError("grid", "is not that of this nacp", remedy=remedy)
            if document["n"]:
                found._counts = found._stored_counts(document)
            found._looks, found._looked_at = (check_count("looks", each) for each in document["looks"])
        return found

    def _stored_counts(self, document: dict[str, Any]) -> Chunk:
        """Return the counts in a file; refuse those that do not have the form of any points' counts."""
        n, several = check_count("n", document["n"], 1), check_flag("several", document["several"])
        widths = files.stored_widths("widths", document["widths"])
        models, part = weights_under(self.noise, self.k, several).values(), PART if several else 1.0
        tallies = []
        for stored, weights in zip(document["tallies"], models, strict=True):
            arrays: dict[str, Any] = {name: _unpacked(stored[name]) for name in _ARRAYS}
            tallies.append(Tally(n, self.k, **arrays, unit=weights.unit, part=part))
        if widths is not None:
            counts = Chunk(tallies, widths, int(tallies[0].hits.sum()) if several else None)
            if self._possible(counts) and n <= self._most_points(counts):
                return counts
        raise InputError("counts", "are not those of any points")


def _packed(numbers: Ints | None) -> str | None:
    """Return whole numbers as text that JSON can hold."""
    return None if numbers is None else base64.b64encode(numbers.astype("<i8").tobytes()).decode()


def _unpacked(text: str | None) -> Ints | None:
    if text is None:
        return None
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<i8").astype(np.int64)


def _grid_digest() -> str:
    return hashlib.sha256(GRID.astype("<f8").tobytes()).hexdigest()[:16]


def _is_possible(tally: Tally, weights: Weights, several: bool, squares: bool) -> bool:
    """Return whether a tally has the form of one of some points: the lengths, the order and the sums."""
    n, given, alike = tally.n, int(tally.hits.sum()), weights.constant is not None
    good = (
        (tally.gains is None) == (tally.losses is None) == alike
        and (tally.squares is not None) == squares
        and tally.by_label.shape == weights.own.shape
        and tally.by_label.min() >= 0
        and all(len(each) == len(tally.cells) and each.min(initial=0) >= 0 for each in tally.counts)
        and bool(np.all(np.diff(tally.cells, prepend=-1, append=CELLS) > 0))
        and (n > 0) == (len(tally.cells) > 0)
        and tally.pairs.sum() == n * tally.k
        # The parts of the labels of a point sum to 1, and each is rounded.
        and (given >= n if several else given == n)
        and abs(tally.by_label.sum() * tally.part - n) <= (given * tally.part if several else 0)
    )
    if not good or tally.squares is None:
        return good
    rising = tally.squares.shape == COARSE.shape and bool((np.diff(tally.squares, prepend=0) >= 0).all())
    return rising and tally.squares[-1] == n * tally.k**2
