"""Noise inside groups: a label is confused only with the labels of its own group."""

import math
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nacp._types import Ints
from nacp.checks import check_interval, check_rate, set_checked
from nacp.errors import InputError
from nacp.noise.base import Doubt, Noise
from nacp.noise.matrices import GroupedMatrix


@dataclass(frozen=True, repr=False)
class GroupNoise(Noise):
    """With probability `rate` the label is replaced by one drawn from all labels of its own group.

    Parameters
    ----------
    groups : sequence of length k
        The group that each class belongs to, as any hashable value.
    rate : float, or mapping from group to float
        In [0, 1); one for all groups, or one for each. In place of a mapping its pairs will do, as files
        have them.
    interval : tuple of two floats, optional
        Where the one rate lies, if it is not known exactly; contains `rate`.
    confidence : float, default=1.0
        The probability that the interval contains the true rate. One minus it is added to delta.

    Notes
    -----
    Two models are equal if they have the same matrix and the same doubt about it, whatever the groups are
    called. A file keeps the names of the groups if they are text, numbers, True, False or None. Other names
    are saved by number, with a warning; what is loaded is an equal model.

    Examples
    --------
    Cats are taken for other cats, and dogs for other dogs:

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
    _index: tuple[int, ...] = field(init=False)  # the number of each class's group
    _rates: tuple[float, ...] = field(init=False)  # by that number

    def __post_init__(self) -> None:
        groups, rate = _plain(self.groups), _by_group(self.rate)
        if len(groups) < 2:
            raise InputError("groups", "must name the group of each class", found=f"{len(groups):,} entries")
        place = {name: g for g, name in enumerate(dict.fromkeys(groups))}
        if isinstance(rate, dict):
            if set(rate) != set(place):
                raise InputError(
                    "rate",
                    f"must hold one rate for each of the {len(place):,} groups",
                    found=f"{len(rate):,} keys, {len(set(rate) & set(place)):,} of them groups",
                )
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

        Parameters
        ----------
        groups : sequence of length k
            The group that each class belongs to. A class alone in its group is never confused.
        rate : float
            The share of wrong labels within each group of m > 1 classes, below ``(m - 1) / m``.

        Examples
        --------
        Classes 2i and 2i + 1 are swapped with probability 0.2:

        >>> import nacp
        >>> noise = nacp.GroupNoise.other([0, 0, 1, 1], rate=0.2)
        >>> noise.matrix(4).dense()[0].round(2).tolist()
        [0.8, 0.2, 0.0, 0.0]
        """
        share = check_rate(rate)
        names = _plain(groups)
        sizes = Counter(names)
        smallest = min((m for m in sizes.values() if m > 1), default=0)
        if smallest and share >= (smallest - 1) / smallest:
            raise InputError(
                "rate",
                f"must lie in [0, {smallest - 1}/{smallest}) where it counts wrong labels in a group of "
                f"{smallest} classes",
                found=repr(rate),
            )
        return cls(names, {name: share * m / (m - 1) if m > 1 else 0.0 for name, m in sizes.items()})

    @property
    def doubt(self) -> Doubt:
        if self.interval is None:
            return Doubt((self,))
        return Doubt(tuple(GroupNoise(self.groups, r) for r in self.interval), confidence=self.confidence)

    @property
    def k(self) -> int:
        return len(self.groups)

    def matrix(self, k: int) -> GroupedMatrix:
        self.check(k)
        index, rates = np.array(self._index), np.array(self._rates)
        return GroupedMatrix(index, 1 - rates, rates / np.bincount(index))

    def with_error_rate(self, rate: float, k: int) -> "GroupNoise":
        factor = rate / self.error_rate(k)
        if isinstance(self.rate, dict):
            return GroupNoise(self.groups, {group: each * factor for group, each in self.rate.items()})
        return GroupNoise(self.groups, self.rate * factor)

    def describe(self, k: int) -> str:
        if self.interval is not None:
            low, high = self.interval
            rate = f"rate {low:.4g} to {high:.4g}{self.doubt.words}"
        else:
            low, high = min(self._rates), max(self._rates)
            rate = f"rate {low:.4g}" if low == high else f"rates {low:.4g} to {high:.4g}"
        return f"label noise inside {len(self._rates):,} groups of classes with {rate}"

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file; groups by number if JSON has no such names."""
        groups = list(self.groups)
        odd = [name for name in groups if not _kept_by_json(name)]
        if odd:
            warnings.warn(
                f"a group named {odd[0]!r} cannot be written to a file: the groups are saved by number",
                stacklevel=2,
            )
            groups = [str(g) for g in self._index]
        stored = {"name": self.name, "groups": groups}
        if isinstance(self.rate, dict):
            pairs = zip(dict.fromkeys(groups), self._rates, strict=True)
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
    """Return the names of the groups, NumPy's numbers and texts as Python's."""
    try:
        names = tuple(name.item() if isinstance(name, np.generic) else name for name in groups)
        set(names)
    except TypeError:
        raise InputError(
            "groups", "must be a sequence of names, numbers or other hashable values", found=repr(groups)
        ) from None
    return names


def _by_group(rate: Any) -> float | dict[Hashable, float]:
    """Return the one rate, or the rates by group."""
    if not isinstance(rate, Mapping | list | tuple):
        return check_rate(rate)
    try:
        return {group: check_rate(each) for group, each in dict(rate).items()}
    except TypeError:
        raise InputError("rate", "must be a number, or map each group to one", found=repr(rate)) from None


def _kept_by_json(name: Hashable) -> bool:
    """Return whether a name comes back from JSON as what it was, in value and type."""
    return name is None or type(name) in (str, int, bool) or (type(name) is float and math.isfinite(name))
