"""Audits: which points were checked, by what plan, and what the other points are used for."""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from zlib import compress, decompress
from zlib import error as zlib_error

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.errors import InputError
from nacp.scores import Score
from nacp.wrapping import wrapped

# The pilot is this part of the points, with at most this number of points and of entries.
_PILOT_SHARE, _PILOT_MOST, _PILOT_ENTRIES = 10, 500, 1 << 22
# The codes of the strata in the file of a plan; 0 stands for points that were not picked.
_INSIDE, _OUTSIDE = 1, 2


class AuditWarning(UserWarning):
    """The checked points do not look like a random sample, on which the promise rests."""


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Which labels to check; made by `choose_audit`. Print it.

    Points lie in two strata: outside are those whose true label may well lie outside of a pilot's prediction
    set, as the classifier and the given label have it, and inside are the others. The points to check are
    picked at random from each stratum.

    Attributes
    ----------
    rows : array of shape (m,)
        The rows to check, in the order in which to check them.
    outside : array of bool of shape (m,)
        Whether they lie in the first of these strata.
    alpha, score, random_state
        As given to `choose_audit`.
    n, k : int
        The numbers of points and of classes.
    native_threshold : float
        The pilot's threshold.
    pilot : int
        From how many points it comes; these are not checked.
    counts : tuple of two ints
        How many points lie outside: of the pilot, and of the others.
    digest : str
        Of the labels and their scores, so that a plan is not used for other points.
    """

    rows: Ints
    outside: Bools
    alpha: float
    score: Score
    random_state: int
    n: int
    k: int
    native_threshold: float
    pilot: int
    counts: tuple[int, int]
    digest: str

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        number = int(self.outside.sum())
        if not number:
            return f"{len(self):,} of {self.n:,} labels to check, picked at random."
        return wrapped(
            f"{len(self):,} of {self.n:,} labels to check: {number:,} of points whose true label may lie "
            f"outside of the pilot's prediction set, and {len(self) - number:,} of others."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a file needs to keep of the plan, besides its rows."""
        number = int(self.outside.sum())
        names = ("n", "k", "alpha", "random_state", "pilot", "digest")
        return {name: getattr(self, name) for name in names} | {
            "score": self.score.to_dict(),
            "threshold": repr(self.native_threshold),  # JSON has no infinity
            "checks": [number, len(self) - number],
            "counts": list(self.counts),
            "picked": self._picked(),
        }

    def _picked(self) -> str:
        """Return which points were picked, and from which stratum, in the order of `planned`."""
        _, others = planned(self.n, self.pilot, self.random_state)
        strata = np.zeros(self.n, dtype=np.uint8)
        strata[self.rows] = np.where(self.outside, _OUTSIDE, _INSIDE)
        return b64encode(compress(strata[others].tobytes().rstrip(b"\0"))).decode()


@dataclass(frozen=True, eq=False)
class Audit:
    """Some points with their true labels, and the others.

    Attributes
    ----------
    rows, labels : arrays of shape (m,)
        The checked points and their true labels; -1 where the checker could not decide.
    pilot : array of int
        Points that define the two strata, and are used for nothing else.
    counted : array of int
        Points whose strata are counted.
    plan : AuditPlan or None
        By which the checked points were chosen; None if they were picked at random.
    given : tuple or None
        How many points were given, and which of them these are; None if these are all.
    """

    rows: Ints
    labels: Ints
    pilot: Ints
    counted: Ints
    plan: AuditPlan | None = None
    given: tuple[int, Ints] | None = None


def digest(labels: Ints, scores: Floats) -> str:
    """Return a short digest of labels and their scores."""
    found = sha256(np.ascontiguousarray(labels, dtype=np.int64).tobytes())
    found.update(np.ascontiguousarray(scores, dtype=np.float64).tobytes())
    return found.hexdigest()[:16]


def picked(text: Any, others: Ints, checks: tuple[int, int]) -> tuple[Ints, Ints]:
    """Return the points outside and inside that a plan picked, as `AuditPlan.to_dict` describes them."""
    try:
        strata = np.frombuffer(decompress(b64decode(text)), dtype=np.uint8)
        first = others[: len(strata)]
        outside, inside = first[strata == _OUTSIDE], first[strata == _INSIDE]
    except (TypeError, ValueError, IndexError, zlib_error):
        raise InputError("audit", "has a plan that cannot be read") from None
    if (len(outside), len(inside)) != checks:
        raise InputError("audit", f"has a plan that picks other numbers of points than {checks}")
    return outside, inside


def deal(n: int, k: int, rows: Ints, labels: Ints, seed: int) -> Audit:
    """Return a random audit: of the points that were not checked, a random part is the pilot."""
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(n), rows, assume_unique=True))
    pilot, counted = np.split(others, [pilot_size(len(others), k)])
    return Audit(rows, labels, pilot, counted)


def pilot_size(n: int, k: int) -> int:
    """Return how many of n points are the pilot."""
    return min(n // _PILOT_SHARE, _PILOT_MOST, max(_PILOT_ENTRIES // k, 20))


def planned(n: int, pilot: int, seed: int) -> tuple[Ints, Ints]:
    """Return the pilot of a plan, and all other points, in random order."""
    pilot_rows, others = np.split(np.random.default_rng(seed).permutation(n), [pilot])
    return pilot_rows, others
