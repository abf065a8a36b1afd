"""How often each annotator is right, by Dawid and Skene's model and by checked items."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp.checks import check_fraction
from nacp.estimation.votes import open_votes
from nacp.labels import LabelTable
from nacp.wrapping import table_lines

_MOST_LINES = 30  # of the printed table


class AnnotatorRow(NamedTuple):
    """The estimated accuracy of one annotator.

    It is the share of the annotator's `labels` that are right, with an approximate interval from `low` to
    `high`. Of the labels of checked items, `gold` in number, `gold_right` are right.
    """

    annotator: Any
    labels: int
    accuracy: float
    low: float
    high: float
    gold: int
    gold_right: int


@dataclass(frozen=True)
class AnnotatorAccuracy:
    """The result of `accuracy_by_annotator`; printed as a table.

    The rows are in the order of the columns, and come from n items; `confidence` is that of each interval by
    itself.
    """

    rows: tuple[AnnotatorRow, ...]
    n: int
    confidence: float

    def worst_first(self) -> list[AnnotatorRow]:
        """Return the rows by ascending accuracy."""
        return sorted(self.rows, key=lambda row: row.accuracy)

    def __str__(self) -> str:
        interval = f"{100 * self.confidence:.4g}% interval"
        lines = [["annotator", "labels", "right", interval, "checked", "right of these"]]
        shown = self.rows if len(self.rows) <= _MOST_LINES else self.worst_first()[:_MOST_LINES]
        for row in shown:
            name = str(row.annotator)
            lines.append(
                [
                    name if len(name) <= 24 else f"{name[:23]}…",
                    f"{row.labels:,}",
                    f"{100 * row.accuracy:.1f}%",
                    f"{100 * row.low:.1f}% to {100 * row.high:.1f}%",
                    f"{row.gold:,}",
                    f"{100 * row.gold_right / row.gold:.1f}%" if row.gold else "–",
                ]
            )
        if not any(row.gold for row in self.rows):
            lines = [line[:4] for line in lines]
        left = len(self.rows) - len(shown)
        more = [f"and {left:,} more, who are right more often"] if left else []
        return "\n".join([*table_lines(lines, 1), *more])


def accuracy_by_annotator(
    labels: ArrayLike | LabelTable,
    *,
    k: int | None = None,
    classes: Sequence[Any] | None = None,
    clean: Any = None,
    confidence: float = 0.95,
) -> AnnotatorAccuracy:
    """Estimate how often each annotator is right, with or without checked items.

    Dawid and Skene's model gives the probability that a label is right. The interval is that of Jeffreys for
    the number of known outcomes with the same information: a label that may be right or wrong counts for less
    than one (Louis 1982). It is approximate: the matrices of the other annotators are taken as known.

    Parameters
    ----------
    labels, k, classes, clean
        As in `nacp.noise_from_annotators`.
    confidence : float, default=0.95
        Of each interval by itself.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> true = np.arange(900) % 3
    >>> labels = np.stack([nacp.UniformNoise(rate).sample(true, 3, 0) for rate in (0.1, 0.2, 0.6)], axis=1)
    >>> print(nacp.estimation.accuracy_by_annotator(labels, k=3, clean=np.where(true < 1, true, -1)))
    annotator  labels  right    95% interval  checked  right of these
    ...
    """
    tail = (1 - check_fraction("confidence", confidence)) / 2
    votes = open_votes(labels, k, classes, clean)
    votes.check_named("labels")
    used = votes.used
    posterior = used.fit().posterior
    rows = []
    for a, name in enumerate(votes.annotators):
        own = np.flatnonzero(used.table[:, a] >= 0)
        given, gold = used.table[own, a], used.known[own]
        rows.append(
            AnnotatorRow(
                name,
                int(np.count_nonzero(votes.table[:, a] >= 0)),
                *_share_right(posterior[own, given], tail),
                int(np.count_nonzero(gold >= 0)),
                int(np.count_nonzero(gold == given)),
            )
        )
    return AnnotatorAccuracy(tuple(rows), len(used.table), confidence)


def _share_right(right: Floats, tail: float) -> tuple[float, float, float]:
    """Return the mean of probabilities that labels are right, and its interval; nan without labels."""
    from scipy.special import betaincinv

    if not len(right):
        return math.nan, 0.0, 1.0
    share = float(right.mean())
    spread = share * (1 - share)
    # Louis: the missing information is the variance of the unobserved outcomes.
    unknown = float((right * (1 - right)).sum()) / spread if spread > 1e-12 else 0.0
    number = max(len(right) - unknown, 0.0)
    low, high = betaincinv(share * number + 0.5, (1 - share) * number + 0.5, [tail, 1 - tail])
    return share, min(float(low), share), max(float(high), share)  # the share may be 0 or 1
