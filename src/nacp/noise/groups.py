"""Noise inside groups: a label is confused only with the labels of its own group."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nacp._types import Ints
from nacp.checks import check_interval, check_rate, set_checked
from nacp.errors import InputError
from nacp.noise.base import Noise
from nacp.noise.matrices import GroupedMatrix


@dataclass(frozen=True, repr=False)
class GroupNoise(Noise):
    """With probability `rate` the label is replaced by one drawn from all labels of its own group.

    Two models are equal if they have the same matrix, interval and confidence; the names of the groups do not
    matter. A file contains the names if all are text or whole numbers, and otherwise the groups' numbers.

    Parameters
    ----------
    groups : sequence of length k
        The group of each class, any hashable value.
    rate : float, or mapping from group to float
        In [0, 1); one for all groups, or one for each. A mapping may also be given as a list of pairs.
    interval, confidence
        As in `UniformNoise`, if there is one rate.

    Examples
    --------
    >>> import nacp
    >>> noise = nacp.GroupNoise(["cat", "cat", "dog", "dog"], rate=0.2)
    >>> noise.matrix(4).dense().round(2).tolist()
    [[0.9, 0.1, 0.0, 0.0], [0.1, 0.9, 0.0, 0.0], [0.0, 0.0, 0.9, 0.1], [0.0, 0.0, 0.1, 0.9]]
    """

    groups: tuple[Hashable, ...] = field(compare=False)
    rate: float | dict[Hashable, float] = field(compare=False)
    interval: tuple[float, float] | None = None
    confidence: float = 1.0
    name: ClassVar[str] = "groups"
    has_rate: ClassVar[bool] = True
    _index: tuple[int, ...] = field(init=False)  # the number of each class's group
    _rates: tuple[float, ...] = field(init=False)  # by that number

    def __post_init__(self) -> None:
        groups, rate = _plain(self.groups), _by_group(self.rate)
        if len(groups) < 2:
            raise InputError("groups", "must name the group of each class", found=f"{len(groups):,} entries")
        place = {name: g for g, name in enumerate(dict.fromkeys(groups))}
        if isinstance(rate, dict):
            if set(rate) != set(place):
                found = f"{len(rate):,} keys, {len(set(rate) & set(place)):,} of them groups"
                raise InputError("rate", f"must hold one for each of the {len(place):,} groups", found=found)
            if self.interval is not None:
                raise InputError("interval", "is that of one rate for all groups", found="a rate for each")
            rates = tuple(rate[name] for name in place)
        else:
            rates = (rate,) * len(place)
        interval, confidence = check_interval(rates[0], self.interval, self.confidence)
        set_checked(self, groups=groups, rate=rate, interval=interval, confidence=confidence)
        set_checked(self, _index=tuple(place[name] for name in groups), _rates=rates)

    @classmethod
    def other(cls, groups: Sequence[Hashable], rate: float) -> "GroupNoise":
        """Return the model "with probability `rate`, a random *other* label of the same group".

        The rate is the share of wrong labels within each group of m > 1 classes, below ``(m - 1) / m``. A
        class alone in its group is never confused.

        Examples
        --------
        >>> import nacp
        >>> nacp.GroupNoise.other([0, 0, 1, 1], rate=0.2).matrix(4).dense()[0].round(2).tolist()
        [0.8, 0.2, 0.0, 0.0]
        """
        share = check_rate(rate)
        names = _plain(groups)
        sizes = Counter(names)
        smallest = min((m for m in sizes.values() if m > 1), default=0)
        if smallest and share >= (smallest - 1) / smallest:
            problem = f"must lie in [0, {smallest - 1}/{smallest}), for a group of {smallest} classes"
            raise InputError("rate", problem, found=repr(rate))
        return cls(names, {name: share * m / (m - 1) if m > 1 else 0.0 for name, m in sizes.items()})

    @property
    def k(self) -> int:
        return len(self.groups)

    def matrix(self, k: int) -> GroupedMatrix:
        self.check(k)
        index, rates = np.array(self._index), np.array(self._rates)
        return GroupedMatrix(index, 1 - rates, rates / np.bincount(index))

    def with_error_rate(self, rate: float, k: int) -> "GroupNoise":
        factor, rates = rate / self.error_rate(k), self.rate
        if isinstance(rates, dict):
            return GroupNoise(self.groups, {group: each * factor for group, each in rates.items()})
        return GroupNoise(self.groups, rates * factor)

    def permuted(self, order: Ints) -> "GroupNoise":
        groups = [self.groups[i] for i in order]
        return GroupNoise(tuple(groups), self.rate, self.interval, self.confidence)

    def describe(self, k: int) -> str:
        if self.interval is not None:
            low, high = self.interval
            rate = f"rate {low:.4g} to {high:.4g}{self.doubt.words}"
        else:
            low, high = min(self._rates), max(self._rates)
            rate = f"rate {low:.4g}" if low == high else f"rates {low:.4g} to {high:.4g}"
        return f"label noise inside {len(self._rates):,} groups of classes with {rate}"

    def to_dict(self) -> dict[str, Any]:
        names = self.groups if all(type(name) in (str, int, bool) for name in self.groups) else self._index
        stored = {"name": self.name, "groups": list(names)}
        if isinstance(self.rate, dict):
            pairs = zip(dict.fromkeys(names), self._rates, strict=True)
            return stored | {"rate": [list(pair) for pair in pairs]}
        return stored | {"rate": self.rate, "interval": self.interval, "confidence": self.confidence}

    def __repr__(self) -> str:
        return f"GroupNoise({self.describe(self.k)})"

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        index = np.array(self._index)
        members = np.argsort(index, kind="stable")
        sizes = np.bincount(index)
        start = np.cumsum(sizes) - sizes
        group = index[labels]
        drawn = members[start[group] + rng.integers(sizes[group])]
        return np.where(rng.random(len(labels)) < np.array(self._rates)[group], drawn, labels)


def _plain(groups: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return the names of the groups, NumPy scalars as Python objects."""
    try:
        names = tuple(name.item() if isinstance(name, np.generic) else name for name in groups)
        set(names)
    except TypeError:
        raise InputError("groups", "must be a sequence of hashable names", found=repr(groups)) from None
    return names


def _by_group(rate: Any) -> float | dict[Hashable, float]:
    if not isinstance(rate, Mapping | list | tuple):
        return check_rate(rate)
    try:
        return {group: check_rate(each) for group, each in dict(rate).items()}
    except TypeError:
        raise InputError("rate", "must be a number, or map each group to one", found=repr(rate)) from None
