"""The state of a stream: what is counted, and what has been. States of parts of points add up."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Self, TypeAlias

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.coverage.counts import MOST_POINTS, Counts, least_width
from nacp.errors import InputError
from nacp.guarantees import PAC
from nacp.guarantees.pac import BetsQuestion
from nacp.noise import Noise
from nacp.noise.matrices import ClassMatrix
from nacp.points import Widths
from nacp.scores import Score

Model: TypeAlias = tuple[Noise, float]  # a noise model, and the radius up to which it is known

SETTINGS = ("k", "noise", "score", "classes", "normalize", "from_logits", "bets", "alphas", "points")
NOTHING = Counts(0, 0, np.zeros(1, dtype=np.int64), {})
_WAITING = 1 << 16  # entries of rows that wait to be counted
_HOLDING = Lock()  # while it is replaced what a stream holds, not while rows are counted
_HELD = ("_held", "_widths", "_several", "_played")
INSTEAD = '"binomial" and "nacp" (uniform noise), "expected", "acnl", "crcp" and "none"'


class State:
    """What is counted, and what has been."""

    k: int
    noise: Noise | None
    score: Score
    classes: tuple[Any, ...] | None
    normalize: bool
    from_logits: bool
    bets: PAC | None
    alphas: list[float]
    points: int
    _ends: Floats  # of the cells in which scores are counted
    _marks: Ints  # at which of their upper edges the squares of set sizes are known
    _known: dict[bool, dict[Model, ClassMatrix]]  # W, for one label for each point, and for several

    def _forget(self) -> None:
        # Counts, rows and labels that are counted with the next ones, and how many rows these are.
        self._held: tuple[Counts | None, list[tuple[Array, Ints]], int] = None, [], 0
        self._widths: Widths | None = None
        self._several = False
        self._played: dict[Model, BetsQuestion] = {}
        self._updating = Lock()  # of several threads, one takes in points at a time

    @property
    def n(self) -> int:
        """How many points were counted."""
        counts, _, waiting = self._held
        return waiting + (0 if counts is None else counts.n)

    @property
    def _counts(self) -> Counts | None:
        """What was counted of all points."""
        with _HOLDING:
            held, waiting = self._held, self._held[1].copy()
        if not waiting:
            return held[0]
        rows, labels = (np.concatenate(each) for each in zip(*waiting, strict=True))
        found = (held[0] or NOTHING) + self._counts_of(rows, labels)
        with _HOLDING:
            if self._held is held:  # else more have come, from another thread
                self._counts = found
        return found

    @_counts.setter
    def _counts(self, counts: Counts | None) -> None:
        self._held = counts, [], 0

    def _counts_of(self, rows: Array, labels: Ints) -> Counts:
        """Count rows that have been checked."""
        raise NotImplementedError

    def _waits(self, batch: Self, probs: object, labels: Ints) -> bool:
        """Let the few rows of a batch wait for more: to count one takes as long as to count hundreds.

        Bets are placed at once. Scores and labels of one's own may be wrong, and are to be told so at once.
        """
        known = self.bets is None and self.score.spec.codes is not None and labels.ndim == 1
        if not known or type(probs) is not np.ndarray or self.n + len(probs) > MOST_POINTS:
            return False
        with _HOLDING:
            counts, waiting, number = self._held
            if (number + len(probs)) * self.k > _WAITING:
                return False
            waiting.append((probs.copy(), labels.copy()))
            batch._held = counts, waiting, number + len(probs)
            self._become(batch)
        return True

    def _take(self, batch: Self) -> None:
        """Add what a batch has counted; the rest of its state goes on from there."""
        if batch._counts is not None:
            batch._counts = (self._counts or NOTHING) + batch._counts
            with _HOLDING:
                self._become(batch)

    def _become(self, other: Self) -> None:
        vars(self).update({name: getattr(other, name) for name in _HELD})

    def fresh(self) -> Self:
        """Return one that counts alike, and has counted nothing: for another worker, or the next hour."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._forget()
        return other

    def merge(self, other: Self) -> None:
        """Take in what another one has counted; the same as to have counted its points here.

        Parameters
        ----------
        other : Calibrator
            With the same k, noise, score and so on, and without bets.
        """
        with self._updating:
            found = self + other
            with _HOLDING:
                self._become(found)

    def __add__(self, other: Self) -> Self:
        self._check_same(other, "merged")
        return self._with(other, lambda a, b: a + b)

    def __radd__(self, other: object) -> Self:
        return self.fresh() + self if isinstance(other, int) and other == 0 else NotImplemented  # for sum()

    def __sub__(self, other: Self) -> Self:
        self._check_same(other, "subtracted")
        return self._with(other, lambda a, b: a - b)

    def _with(self, other: Self, combine: Callable[[Counts, Counts], Counts]) -> Self:
        found = self.fresh()
        counts = combine(self._counts or NOTHING, other._counts or NOTHING)
        if counts.n:
            found._counts, found._several = counts, self._several or other._several
            found._widths = max((each for each in (self._widths, other._widths) if each), key=least_width)
        return found

    def _check_same(self, other: object, done: str) -> None:
        """Refuse what does not belong together, and say what differs."""
        if not isinstance(other, State):
            raise InputError("other", "must be a Calibrator", found=f"{type(other).__name__}")
        for name in SETTINGS:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                said = "other classes" if name == "classes" else f"{name} {theirs!r}, not {ours!r}"
                raise InputError("other", f"cannot be {done}: it has {said}")
        if self.bets is not None:
            raise InputError(
                "bets",
                f"are placed on the points one after the other, so they cannot be {done}",
                remedy=f'{INSTEAD} can, without bets; for "pac" pass all points to nacp.calibrate',
            )
        if self._counts is None or other._counts is None:
            return
        if self._several != other._several:
            raise InputError(
                "other", f"cannot be {done}: one has several labels for each point, the other one"
            )
        widths = [each.given for each in (self._widths, other._widths) if each]
        if widths[0] != widths[1]:
            raise InputError("other", f"cannot be {done}: it has counted {widths[1]}, not {widths[0]}")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, State)
            and all(getattr(self, name) == getattr(other, name) for name in SETTINGS)
            and (self._counts, self._widths, self._several) == (other._counts, other._widths, other._several)
            and self._played.keys() == other._played.keys()
            and all(bets == other._played[model] for model, bets in self._played.items())
        )

    __hash__ = None  # type: ignore[assignment]  # arrays
