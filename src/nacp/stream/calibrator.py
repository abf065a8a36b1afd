"""Calibrator: calibration from points that come in batches. It keeps a tally, which adds up and subtracts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from nacp.calibrate import chosen_guarantee, informative_noise, warn_of_obstacles
from nacp.calibration import Calibration
from nacp.checks import check_alphas, check_choice, check_count, check_flag
from nacp.coverage.curve import RULES, Rule
from nacp.coverage.grid import CELLS, COARSE
from nacp.coverage.sample import Sample
from nacp.coverage.tally import MOST_POINTS, PART, Tally, Weights
from nacp.engine import Spec
from nacp.errors import InputError
from nacp.files import File
from nacp.guarantees import Guarantee
from nacp.marginal import Counted, calibrations, count_lazy, weights_under
from nacp.noise import AnnotatorNoise, Noise, NoiseLike, basis_of, noise_for
from nacp.points import Widths, check_classes, check_given, open_rows, warn_of_repeats
from nacp.points.arrays import is_lazy
from nacp.points.lazy import open_lazy
from nacp.scores import Score, ScoreLike, as_score

SETTINGS = ("k", "noise", "score", "classes", "normalize", "from_logits")


@dataclass(frozen=True)
class Counts:
    """What was counted of some points; a value.

    Attributes
    ----------
    tallies : dict
        One tally for each kind of weights, by the first noise model that has them.
    several : bool
        Whether points have several labels each.
    widths : Widths
        How wide their numbers are.
    """

    tallies: dict[Noise | None, Tally]
    several: bool
    widths: Widths

    @property
    def n(self) -> int:
        """The number of points."""
        return next(iter(self.tallies.values())).n

    @property
    def given(self) -> int:
        """The number of labels."""
        return int(next(iter(self.tallies.values())).hits.sum())


class Kinds:
    """The weights of pairs under each noise model that is asked about, and the tallies that these need.

    Where pairs all weigh the same, they are only counted, so one tally serves all such models; "binomial" can
    then be found, which needs the squared sizes of sets.
    """

    def __init__(self, noise: Noise | None, k: int, several: bool) -> None:
        self.weights = weights_under(noise, k, several)
        alike = [model for model, each in self.weights.items() if each.constant is not None]
        self.served = {model: alike[0] if model in alike else model for model in self.weights}
        self.needed: dict[Noise | None, Weights] = {
            model: self.weights[model] for model in dict.fromkeys(self.served.values())
        }
        self.squares = len(alike) == len(self.weights)
        # So that no sum of whole numbers can overflow.
        self.most_points = (1 << 62) // k**2 if self.squares else min(MOST_POINTS, (1 << 62) // k**2)

    def possible(self, counts: Counts, spec: Spec) -> bool:
        """Return whether there are points that leave such counts with this score."""
        return counts.tallies.keys() == self.needed.keys() and all(
            _is_possible(tally, self.needed[model], counts.several, self.squares, spec)
            for model, tally in counts.tallies.items()
        )


class Calibrator:
    """Calibrate from points that come in batches: nothing is kept that grows with their number.

    Scores are counted by cells of a grid that is fixed before any point comes, some MB in all. `calibrate`
    counts in the same way, so thresholds are the same to the last bit, in any batches; only that of "split"
    is the next point of the grid, where `calibrate` has the score of a label itself. States of parts of the
    points add up, by ``+`` or `merge`, and can be taken away again, by ``-``. Several threads may update.

    Parameters
    ----------
    k : int
        The number of classes.
    noise, score, classes, normalize, from_logits
        As in `calibrate`.

    Attributes
    ----------
    n : int
        How many points were counted.

    See Also
    --------
    calibrate : The same from all points at once, with "pac", which looks at them in a random order.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=100, random_state=0)
    >>> stream = nacp.Calibrator(100, noise=0.2, score="raps")
    >>> for start in range(0, 4000, 500):
    ...     stream.update(probs[start : start + 500], noisy[start : start + 500])
    >>> cal = stream.finish(alpha=0.1)
    >>> whole = nacp.calibrate(probs, noisy, noise=0.2, score="raps", guarantee="binomial")
    >>> cal.guarantee, cal.threshold == whole.threshold
    (Binomial(delta=0.05), True)
    """

    def __init__(
        self,
        k: int,
        *,
        noise: NoiseLike,
        score: ScoreLike = "hps",
        classes: Any = None,
        normalize: bool = False,
        from_logits: bool = False,
    ) -> None:
        self.k, self.score = check_count("k", k, 2), as_score(score)
        self.noise, self._basis = noise_for(noise, self.k), basis_of(noise)
        self.classes = check_classes(classes, self.k)
        self.normalize = check_flag("normalize", normalize)
        self.from_logits = check_flag("from_logits", from_logits)
        open_rows(np.empty((0, self.k)), **self._options)  # settings that exclude each other are refused here
        self._counts: Counts | None = None
        self._set_up()

    def _set_up(self) -> None:
        self._known: dict[bool, Kinds] = {}
        self._adding = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_known", "_adding")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set_up()

    @property
    def n(self) -> int:
        return 0 if self._counts is None else self._counts.n

    def update(self, probs: ArrayLike, labels: ArrayLike) -> None:
        """Count some points; if there is anything wrong with one of them, none is counted.

        Parameters
        ----------
        probs : array of shape (m, k)
            As in `calibrate`. Any number of rows, also none; in all batches equally wide numbers. The chunks
            of a dask array are counted where they are, and the counts added up by a tree.
        labels : array of shape (m,) or (m, a)
            Their noisy labels, as in `calibrate`.
        """
        batch = self._counts_there(probs, labels) if is_lazy(probs) else self._counts_of(probs, labels)
        if batch is None:
            return
        with self._adding:
            known = self._counts
            if known is not None and batch.several != known.several:
                labels_of_each = "several labels" if known.several else "one label"
                raise InputError("labels", f"must have {labels_of_each} for each point, as before")
            if known is not None and batch.widths.given != known.widths.given:
                raise InputError(
                    "probs",
                    f"must be {known.widths.given}, as the points before were",
                    found=batch.widths.given,
                )
            self._counts = self._sum(known, batch)

    def _counts_of(self, probs: ArrayLike, labels: ArrayLike) -> Counts | None:
        """Count points in memory, or on a device."""
        rows = open_rows(probs, **self._options)
        numbers = check_given(labels, rows.n, self.k, self.classes)
        if rows.n == 0:
            return None
        several, parts = numbers.ndim == 2, None
        if several and isinstance(self.noise, AnnotatorNoise):
            numbers, parts = self.noise.spread(numbers)
        sample, kinds = Sample.of(rows, numbers, self.score, parts), self._kinds(several)
        warn_of_repeats(rows)
        tallies = {model: Tally.of(sample, each, kinds.squares) for model, each in kinds.needed.items()}
        return Counts(tallies, several, rows.widths_of_all())

    def _counts_there(self, probs: Any, labels: ArrayLike) -> Counts | None:
        """Count a dask array where its chunks are."""
        rows = open_lazy(probs, **self._options)
        if rows.n == 0:
            return None
        squares = self._kinds(several=False).squares
        counted, widths, number = count_lazy(rows, labels, self.noise, self.score, self.classes, squares)
        kinds = self._kinds(several=number is not None)
        tallies = {model: counted.tallies[model] for model in kinds.needed}
        if not kinds.squares:
            tallies = {model: replace(tally, squares=None) for model, tally in tallies.items()}
        return Counts(tallies, number is not None, widths)

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "probabilities": self.score.takes_probabilities,
            "normalize": self.normalize,
            "from_logits": self.from_logits,
            "k": self.k,
            "classes": self.classes,
            "least": 0,
        }

    def _kinds(self, several: bool) -> Kinds:
        if several not in self._known:
            self._known[several] = Kinds(self.noise, self.k, several)
        return self._known[several]

    @overload
    def finish(
        self,
        *,
        alpha: float = 0.1,
        guarantee: str | Guarantee | None = None,
        delta: float | None = None,
        crossing: Rule = "last",
    ) -> Calibration: ...
    @overload
    def finish(
        self,
        *,
        alpha: Sequence[float],
        guarantee: str | Guarantee | None = None,
        delta: float | None = None,
        crossing: Rule = "last",
    ) -> list[Calibration]: ...
    def finish(
        self,
        *,
        alpha: float | Sequence[float] = 0.1,
        guarantee: str | Guarantee | None = None,
        delta: float | None = None,
        crossing: Rule = "last",
    ) -> Calibration | list[Calibration]:
        """Find the threshold for the points that have come so far; more may come later.

        Parameters
        ----------
        alpha : float or sequence of float, default=0.1
            As in `calibrate`.
        guarantee : str or guarantee, optional
            As in `calibrate`, but for "pac". By default "binomial" for uniform noise, "expected" for other
            noise, and "split" for ``noise=None``.
        delta, crossing
            As in `calibrate`.

        Returns
        -------
        Calibration, or a list of them if `alpha` is a sequence
        """
        check_choice("crossing", crossing, RULES)
        counts = self._counts
        if counts is None:
            raise InputError(
                "probs", "has not come: there is no point to calibrate with", remedy="call update first"
            )
        chosen = chosen_guarantee(guarantee, delta, self.noise, again=False, several=counts.several)
        chosen.check_applies(self.noise, crossing)
        chosen.check_several(several=counts.several)
        alphas = check_alphas(alpha)
        informative_noise(self.noise, counts.n, self.k)
        kinds = self._kinds(counts.several)
        tallies = {model: counts.tallies[served] for model, served in kinds.served.items()}
        found = calibrations(
            Counted(tallies, kinds.weights, self.score),
            chosen,
            self.noise,
            alphas,
            crossing,
            classes=self.classes,
            normalize=self.normalize,
            noise_basis=self._basis,
            widths=counts.widths,
            from_logits=self.from_logits,
            several=counts.given if counts.several else None,
        )
        warn_of_obstacles(found)
        return found[0] if np.ndim(alpha) == 0 else found

    def fresh(self) -> Calibrator:
        """Return one that counts alike, and has counted nothing: for another worker, or the next hour."""
        return self._holding(None)

    def _holding(self, counts: Counts | None) -> Calibrator:
        found = object.__new__(type(self))
        found.__setstate__(self.__getstate__() | {"_counts": counts})
        return found

    def merge(self, other: Calibrator) -> None:
        """Take in what another one has counted; the same as to have counted its points here.

        Parameters
        ----------
        other : Calibrator
            With the same k, noise, score and so on.
        """
        with self._adding:
            self._counts = (self + other)._counts

    def __add__(self, other: Calibrator) -> Calibrator:
        self._check_same(other, "merged")
        return self._holding(self._sum(self._counts, other._counts))

    def __radd__(self, other: object) -> Calibrator:
        # Python's sum() begins with 0.
        return self._holding(self._counts) if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: Calibrator) -> Calibrator:
        self._check_same(other, "subtracted")
        return self._holding(self._difference(self._counts, other._counts))

    def _sum(self, ours: Counts | None, theirs: Counts | None) -> Counts | None:
        if ours is None or theirs is None:
            found = ours or theirs
        else:
            tallies = {model: tally + theirs.tallies[model] for model, tally in ours.tallies.items()}
            found = Counts(tallies, ours.several, _wider(ours.widths, theirs.widths))
        if found is not None and found.n > (most := self._kinds(found.several).most_points):
            raise InputError(
                "probs", f"has come with more than {most:,} points in all, up to which all sums are exact"
            )
        return found

    def _difference(self, ours: Counts | None, theirs: Counts | None) -> Counts | None:
        if theirs is None:
            return ours
        never = InputError(
            "other",
            "holds points that were never added, so they cannot be taken away",
            found=f"{theirs.n:,} points",
        )
        if ours is None:
            raise never
        try:
            tallies = {model: tally - theirs.tallies[model] for model, tally in ours.tallies.items()}
        except InputError:
            raise never from None
        found = Counts(tallies, ours.several, _wider(ours.widths, theirs.widths))
        if not self._kinds(ours.several).possible(found, self.score.spec):
            raise never
        return found if found.n else None

    def _check_same(self, other: object, done: str) -> None:
        """Refuse a state that does not belong to this one, and say what differs."""
        if not isinstance(other, Calibrator):
            raise InputError("other", "must be a Calibrator", found=f"{type(other).__name__}")
        for name in SETTINGS:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                said = "other classes" if name == "classes" else f"{name} {theirs!r}, not {ours!r}"
                raise InputError("other", f"cannot be {done}: it has {said}")
        here, there = self._counts, other._counts
        if here is None or there is None:
            return
        if here.several != there.several:
            raise InputError(
                "other", f"cannot be {done}: one has several labels for each point, the other one"
            )
        if here.widths.given != there.widths.given:
            raise InputError(
                "other", f"cannot be {done}: it has counted {there.widths.given}, not {here.widths.given}"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibrator) and all(
            getattr(self, name) == getattr(other, name) for name in (*SETTINGS, "_counts")
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Calibrator({self.k}, noise={self.noise!r}, score={self.score!r}, n={self.n:,})"

    def save(self, path: File) -> None:
        """Write the state to a file; `Calibrator.load` reads it back, and counting goes on.

        Parameters
        ----------
        path : path
            The file; replaced if it exists. A line of JSON, whole numbers, and a checksum: no pickle.
        """
        from nacp.stream.files import save_state

        save_state(self, path)

    @classmethod
    def load(cls, path: File, *, score: Score | Callable[..., Any] | None = None) -> Calibrator:
        """Read a state that `save` wrote; a file that is damaged or not of this kind is refused.

        Parameters
        ----------
        path : path
            The file. Nothing in it is executed.
        score : callable, optional
            The function, if the score is a function of one's own.
        """
        from nacp.stream.files import load_state

        return load_state(path, score)


def _wider(ours: Widths, theirs: Widths) -> Widths:
    """Return how wide the numbers of all are: in the narrowest type that holds them all."""
    return max(ours, theirs, key=lambda each: np.dtype(each.least).itemsize)


def _is_possible(tally: Tally, weights: Weights, several: bool, squares: bool, spec: Spec) -> bool:
    """Return whether there are points that leave such a tally."""
    n, k, upto = tally.n, tally.k, np.cumsum(tally.pairs)
    given, labels = int(tally.hits.sum()), int(tally.by_label.sum())
    counted = weights.constant is not None
    good = (
        (tally.unit, tally.part) == (weights.unit, PART if several else 1.0)
        and (tally.gains is None) == (tally.losses is None) == counted
        and (tally.squares is not None) == squares
        and tally.by_label.shape == weights.own.shape
        and tally.by_label.min() >= 0
        and all(len(each) == len(tally.cells) and each.min(initial=0) >= 0 for each in tally.counts)
        and bool(np.all(np.diff(tally.cells, prepend=-1, append=CELLS) > 0))
        and (n == 0 or int(np.sum(tally.counts, axis=0).min(initial=1)) > 0)
        and tally.pairs.sum() == n * k
    )
    if not good:
        return False
    if several:  # the parts of the labels of a point sum to 1, and each is rounded
        good = n <= given and abs(labels * tally.part - n) <= given * tally.part and (n > 0 or given == 0)
    else:
        good = given == labels == n and bool(np.all(tally.hits <= tally.pairs))
    if tally.gains is not None and tally.losses is not None:  # the weights of a row sum to 1, and are rounded
        excess = int(tally.gains.sum()) - int(tally.losses.sum()) - n / tally.unit
        good = good and abs(excess) <= given + n * k
    if tally.squares is not None:  # of n sizes with this mean, each at most k
        sums = np.append(0, upto)[np.searchsorted(tally.cells, COARSE, side="right")]
        good = good and tally.squares.shape == COARSE.shape
        good = good and bool(np.all((sums <= tally.squares) & (tally.squares <= k * sums)))
        good = good and bool(np.all(np.diff(tally.squares) >= 0))
    return good
