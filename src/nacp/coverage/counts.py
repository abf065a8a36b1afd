"""Counts of a stream: whole numbers on cells that were fixed before any point came. They add and subtract.

The cells are finer than those of `nacp.engine.cells`, as nobody can look into them later. The weights of
pairs are whole multiples of a unit that suffices for so many points (`MOST_POINTS`) that no sum can overflow;
where all pairs weigh the same, they are only counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage.coverage import Coverage
from nacp.coverage.estimator import unit_of
from nacp.coverage.questions import MatesQuestion, SquaresQuestion, TallyQuestion
from nacp.coverage.sample import Sample
from nacp.engine.cells import fine_ends, marks_among
from nacp.errors import InputError
from nacp.noise import AnnotatorNoise, Noise
from nacp.noise.matrices import ClassMatrix
from nacp.points import Rows, Widths, open_rows
from nacp.points.lazy import Part, numbered
from nacp.points.repeats import repeats
from nacp.scores import Score

MOST_POINTS = 1 << 32
_PART = 1 << 30  # the parts of several labels of a point are counted in units of one over this
PLACES = 1 << 12  # in a cell, that are told apart
# Of these only what is likely depends. They are kept modulo 2^32, and read where they cannot be more.
SMALL = ("before", "mates", "places")
_NONE = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Counts:
    """What was counted of some points.

    Attributes
    ----------
    n, given : int
        The numbers of points and of their labels.
    by_label : array
        How many labels there are of each class; of several labels for each point, their parts.
    cells : dict of arrays
        For each cell the number of labels ("hits") and of pairs ("pairs") that score in it, and where in it
        these labels lie ("places": the sum, in units of one over `PLACES` of the cell). Of points with one
        label each, how many pairs of the labels' own rows are in the cell ("mates"), and how many of these
        before the label ("before"). For weights W that differ from pair to pair, the gains and the losses of
        the pairs, and of the labels' own part: "gains 0", "losses 0", "own gains 0", "own losses 0"; of the
        next W 1, and so on. Where all pairs weigh the same, what they add to the sum of the squares of set
        sizes ("squares"), up to the next of the edges that are marked.
    """

    n: int
    given: int
    by_label: Ints
    cells: dict[str, Ints]

    def __add__(self, other: "Counts") -> "Counts":
        if self.n + other.n > MOST_POINTS:
            raise InputError("probs", f"has come with more than {MOST_POINTS:,} points in all")
        return self._with(other, np.add)

    def __sub__(self, other: "Counts") -> "Counts":
        found = self._with(other, np.subtract)
        least = min(int(each.min(initial=0)) for each in (found.by_label, *found.cells.values()))
        if min(least, found.n, found.given) < 0 or (found.cells and are_strange(found.cells)):
            raise InputError(
                "other",
                "holds points that were never added, so they cannot be taken away",
                found=f"{other.n:,} points",
            )
        return found

    def _with(self, other: "Counts", combine: np.ufunc) -> "Counts":
        cells = {
            name: narrowed(name, combine(self.cells.get(name, _NONE), other.cells.get(name, _NONE)))
            for name in sorted(self.cells.keys() | other.cells.keys())
        }
        n, given = (int(combine(*each)) for each in ((self.n, other.n), (self.given, other.given)))
        return Counts(n, given, combine(self.by_label, other.by_label), cells)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Counts)
            and (self.n, self.given) == (other.n, other.given)
            and np.array_equal(self.by_label, other.by_label)
            and self.cells.keys() == other.cells.keys()
            and all(np.array_equal(each, other.cells[name]) for name, each in self.cells.items())
        )

    __hash__ = None  # type: ignore[assignment]  # arrays


def narrowed(name: str, numbers: Ints) -> Ints:
    """Return counts as they are kept: modulo 2^32, of which only what is likely depends."""
    return numbers.astype(np.uint32) if name in SMALL else numbers


def are_strange(cells: dict[str, Ints]) -> bool:
    """Return whether no points can have left such places and mates."""
    most, pairs = 1 << 32, cells["pairs"]
    limits = {"places": PLACES * cells["hits"], "mates": pairs}
    limits["before"] = np.where(pairs < most, cells.get("mates", _NONE), np.int64(most))
    return any(np.any(cells[name] > limit) for name, limit in limits.items() if name in cells)


def count(sample: Sample, inverses: Sequence[ClassMatrix], ends: Floats, marks: Ints) -> Counts:
    """Count the points of a sample in the cells between ascending ends, some of them marked, under each W."""
    edges, cells = ends[1:], dict[str, Ints]()
    squares = SquaresQuestion(ends) if keeps_squares(inverses, sample.parts is not None) else None
    tallies = {
        i: TallyQuestion(Coverage(sample, inverse, points=MOST_POINTS), ends)
        for i, inverse in enumerate(inverses)
        if inverse.constant_rest is None or (i == 0 and squares is None)
    }
    mates = MatesQuestion(sample, ends) if sample.parts is None else None
    sample.read([*tallies.values(), *(each for each in (squares, mates) if each is not None)])
    if squares is not None:
        cells["pairs"] = squares.found[0]
        cells["squares"] = np.add.reduceat(squares.found[1], np.append(0, marks[:-1] + 1))
    if mates is not None:
        cells["mates"], cells["before"] = mates.found
    scores, labels, parts = sample.label_scores, sample.labels, sample.parts
    for i, tally in tallies.items():
        cells["pairs"] = tally.found[0]
        if len(tally.found) > 1:
            cells |= {f"gains {i}": tally.found[1], f"losses {i}": tally.found[2]}
    if parts is not None:
        some = parts > 0
        scores, labels, parts = scores[some], labels[some], parts[some]
    where = np.searchsorted(edges, scores, side="left")
    cells["hits"] = np.bincount(where, minlength=len(edges))
    cells["places"] = np.zeros(len(edges), dtype=np.int64)
    np.add.at(cells["places"], where, _places(scores, ends, where))
    for i, inverse in enumerate(inverses):
        if parts is None and inverse.constant_rest is not None:
            continue  # the own part is the same for all labels
        own = inverse.own[labels] * (1.0 if parts is None else parts)
        weights = np.rint(own / own_unit(inverse)).astype(np.int64)
        parted = {"gains": np.maximum(weights, 0), "losses": np.maximum(-weights, 0)}
        for name in own_parts(inverse):
            added = cells[f"own {name} {i}"] = np.zeros(len(edges), dtype=np.int64)
            np.add.at(added, where, parted[name])
    by_label = np.zeros(len(inverses[0].own), dtype=np.int64)
    np.add.at(by_label, labels, 1 if parts is None else np.rint(parts * _PART).astype(np.int64))
    kept = {name: narrowed(name, each) for name, each in sorted(cells.items())}
    return Counts(sample.n, len(labels), by_label, kept)


def _places(scores: Floats, ends: Floats, cells: Ints) -> Ints:
    """Return where in its cell each score lies, in whole parts of it: from 0 to `PLACES`, its upper edge."""
    with np.errstate(invalid="ignore"):
        share = (scores - ends[cells]) / (ends[cells + 1] - ends[cells])
    return np.rint(np.nan_to_num(share, nan=1.0) * PLACES).astype(np.int64)


def keeps_squares(inverses: Sequence[ClassMatrix], several: bool) -> bool:
    """Return whether the squares of set sizes are counted: for "binomial", if no sum can overflow."""
    return bool(inverses[0].constant_rest) and not several and inverses[0].k ** 2 < 2**63 // MOST_POINTS


def labelled(rows: Rows, labels: Ints, score: Score, noise: Noise | None) -> Sample:
    """Return points with given labels as a sample; several labels under the noise of who gave them."""
    parts = None
    if labels.ndim == 2 and isinstance(noise, AnnotatorNoise):
        labels, parts = noise.spread(labels)
    return Sample(rows, labels, score, None, parts)


CountedPart: TypeAlias = tuple[Counts, Widths, float | None]
"""Counts of some rows, how wide their numbers are, and how often rows come, if they repeat each other."""


def count_part(
    part: Part,
    options: dict[str, Any],
    classes: Any,
    score: Score,
    noise: Noise | None,
    inverses: Sequence[ClassMatrix],
) -> CountedPart:
    """Check and count some rows of a dask array, in the cells of a stream without bets."""
    rows = open_rows(part.matrix, start=part.start, **options)
    ends = fine_ends(*score.span, rows.k, score.step, piles=score.piles)
    sample = labelled(rows, numbered(part, rows.k, classes), score, noise)
    counts = count(sample, inverses, ends, marks_among(ends[1:]))
    return counts, rows.widths_with(None), repeats(rows)


def join_counts(parts: list[CountedPart]) -> CountedPart:
    """Join what was counted of parts of the rows."""
    counts, widths, times = zip(*parts, strict=True)
    often = max((each for each in times if each is not None), default=None)
    return sum(counts[1:], start=counts[0]), max(widths, key=least_width), often


def least_width(widths: Widths) -> int:
    """Return how many bytes hold numbers that are so wide."""
    return np.dtype(widths.least).itemsize


def own_parts(inverse: ClassMatrix) -> tuple[str, ...]:
    """Return what the labels' own weights can be: gains, and losses if one of them is below 0."""
    return ("gains", "losses") if np.any(inverse.own < 0) else ("gains",)


def own_unit(inverse: ClassMatrix) -> float:
    """Return the unit of the labels' own weights."""
    largest = float(np.abs(inverse.own).max())
    return unit_of(largest, largest, MOST_POINTS)


def label_shares(counts: Counts, several: bool) -> Floats:
    """Return how many points have each label, or in part."""
    shares: Floats = counts.by_label / (_PART if several else 1)
    return shares
