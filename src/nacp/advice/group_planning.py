"""What a promise for each group will cost: how many points a group needs, of rows or of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Floats, Ints
from nacp.errors import InputError
from nacp.groups.grouping import open_grouping
from nacp.noise import Noise
from nacp.stats.bounds import floor

_MOST = 1_000_000_000  # groups of classes times classes


class GroupCost(NamedTuple):
    """What the guarantee "pac" costs in one group.

    `points` are those that the group will have of the n, `deviation` is that of one of them, `correction` the
    excess coverage of the group, `least` how many points it needs for sets that leave half of alpha, and
    `n_needed` for the excess that is wanted; None if no number would do.
    """

    group: Any
    points: int
    deviation: float
    correction: float
    least: int | None
    n_needed: int | None


def costs_of_groups(
    groups: Any,
    by: Any,
    noise: Noise,
    k: int,
    alpha: float,
    delta: float,
    n: int,
    excess: float,
    simultaneous: bool,
    deviation: float,
) -> list[GroupCost]:
    """Return what each group costs; `deviation` is that of a point where groups are of rows."""
    names, shares, members = _shares(groups, by, k)
    shift = 0.0
    if members is None:
        deviations, shift = np.full(len(names), deviation), noise.doubt.shift(noise.inverse(k))
    else:
        if noise.doubt.radius:
            raise InputError(
                "noise", "must be known exactly, or up to an interval, where groups are of classes"
            )
        ends = [class_deviations(end, k, alpha, members, len(names)) for end in noise.doubt.ends]
        deviations = np.max(ends, axis=0)
    each = delta / len(names) if simultaneous else delta
    found = []
    for name, share, one in zip(names, shares.tolist(), deviations.tolist(), strict=True):
        points = round(share * n)
        price = floor(each, one, points) + shift if points else math.inf
        least, needed = (_needed(floor(each, one, 1), wanted - shift) for wanted in (alpha / 2, excess))
        found.append(GroupCost(name, points, one, price, least, needed))
    return found


def _needed(price: float, excess: float) -> int | None:
    return max(1, math.ceil((price / excess) ** 2)) if excess > 0 else None


def _shares(groups: Any, by: Any, k: int) -> tuple[tuple[Any, ...], Floats, Ints | None]:
    """Return names, the share of points of each, and for groups of classes the group of each class."""
    if isinstance(groups, Mapping) and groups and by is None:
        values = list(groups.values())
        if any(isinstance(value, float | np.floating) for value in values) and all(
            isinstance(value, int | float | np.number) for value in values
        ):
            shares = np.array(values, dtype=np.float64)
            if not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
                raise InputError(
                    "groups",
                    "holds shares of points, which must be positive and sum to 1",
                    found=f"a least one of {shares.min():g} and a sum of {shares.sum():g}",
                )
            return tuple(groups), shares, None
    length = 0
    if groups is not None and not isinstance(groups, Mapping):
        if np.ndim(groups) != 1:
            raise InputError(
                "groups", "must be a mapping, or an array with the group of each row", found=repr(groups)
            )
        length = len(groups)
    grouping = open_grouping(groups, by, length, k, None)
    assert grouping is not None
    number, places = len(grouping.names), grouping.places
    if not len(places):
        raise InputError("groups", "must hold at least one group")
    if grouping.of_classes and number * k > _MOST:
        raise InputError("groups", f"must be fewer for {k:,} classes: so many would take minutes")
    shares = np.bincount(places, minlength=number) / len(places)
    return grouping.names, shares, places if grouping.of_classes else None


def class_deviations(noise: Noise, k: int, alpha: float, members: Ints, number: int) -> Floats:
    """Return ``sd(s) / sqrt(p(G))`` for each group G of classes, where classes are equally frequent.

    One point's share in the estimate for G is ``s = sum over l in G of W[y', l] (1{S(x, l) <= q} - c)``, for
    its given label y' and c = 1 - alpha. Where sets are small they hold at most the true label y, which they
    do with probability c: with ``w = W[y', y] 1{y in G}`` and ``v = sum over l in G of W[y', l]``, s is
    ``w - c v`` then and ``- c v`` else. So ``E s = 0`` and

        var(s) = c E[w (w - 2 c v)] + c^2 E[v^2].

    The last term has a part of points of other classes that are labelled as of G: it is why a rare class
    needs more points than an equally large group of rows. Coverage within G is estimated with the error
    ``sd(s) / (p(G) sqrt(n))``, which is ``sd(s) / sqrt(p(G))`` divided by the root of its n p(G) points.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> from nacp.advice.group_planning import class_deviations
    >>> clean = class_deviations(nacp.UniformNoise(0.0), 10, 0.1, np.arange(10), 10)
    >>> noisy = class_deviations(nacp.UniformNoise(0.2), 10, 0.1, np.arange(10), 10)
    >>> print(clean[0].round(3), noisy[0].round(3))
    0.3 0.578
    """
    matrix, inverse = noise.matrix(k), noise.inverse(k)
    given = matrix.push(np.full(k, 1 / k))
    once = matrix.entrywise(inverse)  # P[y, y'] W[y', y]
    own = once.entrywise(inverse).pull(np.ones(k))
    coverage, found = 1 - alpha, np.zeros(number)
    for g in range(number):
        inside = (members == g).astype(np.float64)
        sums = inverse.pull(inside)
        cross = inside @ (own - 2 * coverage * once.pull(sums)) / k
        variance = coverage * cross + coverage**2 * (given @ sums**2)
        found[g] = math.sqrt(max(variance, 0.0) / inside.mean())
    return found
