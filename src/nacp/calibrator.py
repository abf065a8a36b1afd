"""Calibrator: points that come in batches, and go. What is kept are counts that do not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Array, Ints
from nacp.calibrate import (
    calibrations,
    informative_noise,
    warn_of_obstacles,
)
from nacp.calibration import Calibration
from nacp.checks import check_alphas, check_choice, check_count, check_flag
from nacp.coverage import RULES, Coverage, Rule
from nacp.coverage.counts import MOST_POINTS, Counts, count, count_part, join_counts, labelled, least_width
from nacp.coverage.tallied import TalliedSample
from nacp.engine.cells import fine_ends, marks_among
from nacp.errors import InputError
from nacp.files import File
from nacp.guarantees import PAC, Guarantee, as_guarantee
from nacp.guarantees.pac import BetsQuestion
from nacp.noise import AnnotatorNoise, NoiseLike, UniformNoise, basis_of, noise_for
from nacp.noise.matrices import ClassMatrix
from nacp.points import Rows, Widths, check_classes, check_given, open_rows, warn_of_repeats
from nacp.points.lazy import is_lazy, open_lazy
from nacp.points.repeats import warn_of_times
from nacp.scores import Score, ScoreLike, as_score
from nacp.states import INSTEAD, Model, State

_MOST_BETS = 10**8


class Calibrator(State):
    """Calibrate from points that come in batches: nothing is kept that grows with their number.

    Scores are counted in cells that are fixed before any point comes, some MB in all, so a threshold is at
    the edge of a cell: on the safe side of the one that `calibrate` finds in all points at once, by so little
    that sets nearly always differ in size by less than 0.1%. What is promised holds exactly as there
    (docs/guarantees.md, "Streams"). Counts are the same whatever the batches are, so states of parts of the
    points add up, by ``+`` or `merge`, and can be taken away again, by ``-``.

    Parameters
    ----------
    k : int
        The number of classes.
    noise, score, classes, normalize, from_logits
        As in `calibrate`.
    bets : PAC, optional
        For guarantee "pac", which has to be known before the first point: it bets on the points in the order
        in which they come. That order must not depend on what they are, as it would if they were sorted. Its
        bets can be neither merged nor subtracted; `calibrate` on all points has no such limits.
    alpha : float or sequence of float, optional
        With `bets`: what is bet on.
    points : int, optional
        With `bets`: about how many points will come. The promise holds for any number; the sets are smallest
        if it is about right.

    Attributes
    ----------
    n : int
        How many points were counted.

    See Also
    --------
    calibrate : The exact threshold, from all points at once.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=100, random_state=0)
    >>> stream = nacp.Calibrator(100, noise=0.2, score="raps")
    >>> for start in range(0, 4000, 500):
    ...     stream.update(probs[start : start + 500], noisy[start : start + 500])
    >>> cal = stream.finish(alpha=0.1, guarantee="binomial")
    >>> exact = nacp.calibrate(probs, noisy, noise=0.2, score="raps", guarantee="none")
    >>> 0 <= stream.finish(guarantee="none").threshold - exact.threshold < 0.0005
    True
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
        bets: PAC | None = None,
        alpha: float | Sequence[float] | None = None,
        points: int | None = None,
    ) -> None:
        self.k, self.score = check_count("k", k, 2), as_score(score)
        self.noise, self._basis = noise_for(noise, self.k), basis_of(noise)
        self.classes = check_classes(classes, self.k)
        self.normalize, self.from_logits = (
            check_flag("normalize", normalize),
            check_flag("from_logits", from_logits),
        )
        open_rows(np.empty((0, self.k)), **self._options)  # what does not go together is refused now
        self.bets, self.alphas, self.points = bets, _alphas(bets, alpha), _points(bets, points)
        if bets is not None:
            bets.check_applies(self.noise, "last")
        self._set_up()
        self._forget()

    def _set_up(self) -> None:
        self._ends = fine_ends(*self.score.span, self.k, self.score.step, piles=self.score.piles)
        if self.bets is not None:
            self._ends = np.union1d(self._ends, self.bets.thresholds(self.score))
            self._ends.flags.writeable = False
        self._marks = marks_among(self._ends[1:])
        self._known: dict[bool, dict[Model, ClassMatrix]] = {}

    def __getstate__(self) -> dict[str, Any]:
        made_anew = "_ends", "_marks", "_known", "_updating"
        kept = {name: value for name, value in vars(self).items() if name not in made_anew}
        return kept | {"_held": (self._counts, [], 0)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._forget()
        vars(self).update(state)
        self._set_up()

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
        with self._updating:
            self._update(probs, labels)

    def _update(self, probs: ArrayLike, labels: ArrayLike) -> None:
        if is_lazy(probs):
            self._take(self._counted_there(probs, labels))
            return
        rows = open_rows(probs, **self._options)
        numbers = check_given(labels, rows.n, self.k, self.classes)
        if rows.n == 0:
            return
        batch = self.fresh()
        batch._several, batch._widths = self._severally(numbers), self._wide(rows.widths, rows)
        warn_of_repeats(rows)
        if self._waits(batch, probs, numbers):
            return
        batch._counts = self._counts_under(batch._several, rows, numbers, batch._played)
        self._take(batch)

    def _counts_of(self, rows: Array, labels: Ints) -> Counts:
        return self._counts_under(self._several, open_rows(rows, **self._options), labels)

    def _counts_under(
        self, several: bool, rows: Rows, numbers: Ints, played: dict[Model, BetsQuestion] | None = None
    ) -> Counts:
        """Return what is counted of some rows alone; the bets go on."""
        sample, inverses = labelled(rows, numbers, self.score, self.noise), self._inverses(several)
        counts = count(sample, [*inverses.values()], self._ends, self._marks)
        if self.bets is not None and played is not None:
            for model, inverse in inverses.items():
                played[model] = self._bets_under(model, Coverage(sample, inverse, model[1], MOST_POINTS))
            sample.read([*played.values()])
            for bets in played.values():
                bets.off()
        return counts

    def _counted_there(self, probs: Any, labels: ArrayLike) -> Calibrator:
        """Return the state of a dask array alone."""
        if self.bets is not None:
            raise InputError(
                "bets",
                "are placed on the points one after the other, so not on a dask array",
                remedy=f'{INSTEAD} need none; for "pac" pass all points to nacp.calibrate',
            )
        batch, rows = self.fresh(), open_lazy(probs, labels, **self._options)
        numbers = check_given(labels, rows.n, self.k, self.classes)
        if rows.n == 0:
            return batch
        batch._several = self._severally(numbers)
        given, classes = rows.given(numbers)
        inverses = [*self._inverses(batch._several).values()]
        shared = self._options, classes, self.score, self.noise, inverses
        batch._counts, widths, times = rows.joined(count_part, join_counts, shared, given)
        batch._widths = max(self._wide(widths), widths, key=least_width)
        warn_of_times(times)
        return batch

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "probabilities": self.score.takes_probabilities, "normalize": self.normalize,
            "from_logits": self.from_logits, "k": self.k, "classes": self.classes, "least": 0,
        }  # fmt: skip

    def _severally(self, numbers: Ints) -> bool:
        """Return whether points have several labels each; as in all batches."""
        several = numbers.ndim == 2
        if self.n and several != self._several:
            raise InputError(
                "labels",
                f"must have {'several labels' if self._several else 'one label'} for each point, as before",
            )
        return several

    def _wide(self, widths: Widths, rows: Rows | None = None) -> Widths:
        """Return how wide the numbers of all batches are; they must have come equally wide."""
        known = self._widths
        if known is not None and known.given != widths.given:
            raise InputError("probs", f"must be {known.given}, as the points before were", found=widths.given)
        return (known or widths) if rows is None else rows.widths_with(known)

    def _inverses(self, several: bool) -> dict[Model, ClassMatrix]:
        """Return W for each noise model and radius that somebody may ask about."""
        if several not in self._known:
            noise = self.noise or UniformNoise(0.0)
            models = dict.fromkeys([(noise, 0.0), *((end, noise.doubt.radius) for end in noise.doubt.ends)])
            found: dict[Model, ClassMatrix] = {model: model[0].inverse(self.k) for model in models}
            if several and isinstance(noise, AnnotatorNoise):
                found = {(noise, 0.0): noise.stacked_inverse(self.k)}
            self._known[several] = found
        return self._known[several]

    def _bets_under(self, model: Model, coverage: Coverage) -> BetsQuestion:
        """Return the bets under a noise model, to be placed on the points of a coverage next."""
        if model in self._played:
            return self._played[model].on(coverage)
        assert self.bets is not None
        grid, starts = self.bets.thresholds(self.score), np.zeros(len(self.alphas), dtype=np.int64)
        return BetsQuestion(self.bets.delta, coverage, self.alphas, grid, starts, self.points)

    def __repr__(self) -> str:
        return f"Calibrator({self.k}, noise={self.noise!r}, score={self.score!r}, n={self.n:,})"

    @overload
    def finish(
        self,
        *,
        alpha: float | None = None,
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
        alpha: float | Sequence[float] | None = None,
        guarantee: str | Guarantee | None = None,
        delta: float | None = None,
        crossing: Rule = "last",
    ) -> Calibration | list[Calibration]:
        """Find the threshold for the points that have come so far; more may come later.

        Parameters
        ----------
        alpha : float or sequence of float, optional
            As in `calibrate`: by default 0.1. Of bets, by default those that were bet on.
        guarantee : str or guarantee, optional
            As in `calibrate`. By default that of the bets, and for ``noise=None`` "split"; else it must be
            named, as "pac" has to be known before the first point.
        delta, crossing
            As in `calibrate`.

        Returns
        -------
        Calibration, or a list of them if `alpha` is a sequence
        """
        check_choice("crossing", crossing, RULES)
        if self._counts is None:
            raise InputError(
                "probs", "has not come: there is no point to calibrate with", remedy="call update first"
            )
        chosen = self._guarantee(guarantee, delta)
        chosen.check_applies(self.noise, crossing)
        chosen.check_several(several=self._several)
        betting = isinstance(chosen, PAC)
        if alpha is None:
            alpha = self.alphas if betting and len(self.alphas) > 1 else self.alphas[0] if betting else 0.1
        alphas = check_alphas(alpha)
        if betting and not set(alphas) <= set(self.alphas):
            told = ", ".join(f"{each:g}" for each in self.alphas)
            raise InputError("alpha", f"must be what was bet on: {told}", found=repr(alpha))
        informative_noise(self.noise, self.n, self.k)
        sample = self._sample(self._played if betting else {})
        found = sample.ask(
            calibrations(
                sample, chosen, self.noise, alphas, crossing, 0, classes=self.classes,
                normalize=self.normalize, basis=self._basis,
            )
        )  # fmt: skip
        found = [replace(cal, deviation=cal.deviation if cal.deviation == 0 else None) for cal in found]
        warn_of_obstacles(found)
        return found[0] if np.ndim(alpha) == 0 else found

    def _sample(self, played: dict[Model, BetsQuestion]) -> TalliedSample:
        assert self._counts is not None
        assert self._widths is not None
        return TalliedSample(
            self._counts, self._ends[1:], self._marks, self.score, self._inverses(self._several),
            self._widths, from_logits=self.from_logits, several=self._several, played=played,
        )  # fmt: skip

    def _guarantee(self, guarantee: str | Guarantee | None, delta: float | None) -> Guarantee:
        """Return the guarantee that is meant; "pac" only if it is what the bets were for."""
        named = guarantee if guarantee is not None else self.bets or (None if self.noise else "split")
        if named is None:
            raise InputError(
                "guarantee",
                'must be named: "pac" would have to bet on the points as they come, and there are no bets',
                remedy=f"{INSTEAD} need none; or pass bets=nacp.PAC(), alpha= and points= to Calibrator",
            )
        if self.bets is not None and (
            named is self.bets or (isinstance(named, str) and named.lower() == "pac")
        ):
            if delta not in (None, self.bets.delta):
                raise InputError("delta", f"must be that of the bets, {self.bets.delta:g}", found=repr(delta))
            return self.bets
        chosen = as_guarantee(named, delta)
        if isinstance(chosen, PAC) and chosen != self.bets:
            was = "there were no bets" if self.bets is None else f"the bets were {self.bets!r}"
            raise InputError(
                "guarantee",
                f'"pac" bets on the points as they come, and {was}',
                remedy=f"use {INSTEAD}; or pass bets=nacp.PAC(), alpha= and points= to Calibrator, or all "
                "points to nacp.calibrate",
            )
        return chosen

    # Files

    def save(self, path: File) -> None:
        """Write the state to a file; `Calibrator.load` reads it back, and counting goes on.

        Parameters
        ----------
        path : path
            The file; replaced if it exists. A line of JSON, whole numbers, and a checksum: no pickle.
        """
        from nacp.statefiles import save_state

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
        from nacp.statefiles import load_state

        return load_state(path, score)


def _alphas(bets: PAC | None, alpha: float | Sequence[float] | None) -> list[float]:
    """Check what is bet on, if there are bets."""
    if bets is not None and not isinstance(bets, PAC):
        raise InputError("bets", "must be a nacp.PAC", found=repr(bets))
    if (bets is None) != (alpha is None):
        problem = "must be known before the first point" if alpha is None else "is of use with bets= only"
        raise InputError("alpha", problem, remedy=None if alpha is None else "pass it to finish")
    return [] if alpha is None else check_alphas(alpha)


def _points(bets: PAC | None, points: int | None) -> int:
    """Check how many points are expected, if there are bets."""
    if (bets is None) != (points is None):
        problem = "must be said: about how many will come" if points is None else "is of use with bets= only"
        raise InputError("points", problem)
    number = 1 if points is None else check_count("points", points, 1)
    if number > _MOST_BETS:
        raise InputError("points", f"must be {_MOST_BETS:,} at the most", found=f"{number:,}")
    return number
