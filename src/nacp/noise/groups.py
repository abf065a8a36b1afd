"""Noise inside groups: a label is confused only with the labels of its own group."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nacp._types import Floats, Ints
from nacp._validation import check_interval, check_rate, set_checked
from nacp.noise.base import Noise, sure
from nacp.noise.matrices import GroupedMatrix


@dataclass(frozen=True, eq=False)
class GroupNoise(Noise):
    """With probability `rate` the label is replaced by one drawn from all labels of its own group.

    Parameters
    ----------
    groups : sequence of length k
        The group that each class belongs to, as any hashable value.
    rate : float or mapping from group to float
        In [0, 1); one for all groups, or one for each.
    interval : tuple of two floats, optional
        Where the one rate lies, if it is not known exactly; contains `rate`.
    confidence : float, default=1.0
        The probability that the interval contains the true rate. What is missing to 1 adds to delta.

    Examples
    --------
    Cats are taken for other cats, and dogs for other dogs:

    >>> import nacp
    >>> noise = nacp.GroupNoise(["cat", "cat", "dog", "dog"], rate=0.2)
    >>> noise.matrix(4).dense().round(2).tolist()
    [[0.9, 0.1, 0.0, 0.0], [0.1, 0.9, 0.0, 0.0], [0.0, 0.0, 0.9, 0.1], [0.0, 0.0, 0.1, 0.9]]
    """

    groups: tuple[Hashable, ...]
    rate: float | dict[Hashable, float]
    interval: tuple[float, float] | None = None
    confidence: float = 1.0
    name: ClassVar[str] = "groups"
    _index: Ints = field(init=False, repr=False)
    _rates: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        groups = self.groups.tolist() if isinstance(self.groups, np.ndarray) else list(self.groups)
        if len(groups) < 2:
            raise ValueError(f"groups must name the group of each class; found {len(groups)} entries")
        names = list(dict.fromkeys(groups))
        position = {name: g for g, name in enumerate(names)}
        if isinstance(self.rate, dict):
            if set(self.rate) != set(names):
                raise ValueError(
                    f"rate must hold one rate for each of the {len(names)} groups; "
                    f"found {len(self.rate)} keys, {len(set(self.rate) & set(names))} of them groups"
                )
            rates = [check_rate(self.rate[name]) for name in names]
            if self.interval is not None:
                raise ValueError("interval is that of one rate for all groups; found a rate for each")
        else:
            rates = [check_rate(self.rate)] * len(names)
        interval, confidence = check_interval(rates[0], self.interval, self.confidence)
        set_checked(
            self,
            groups=tuple(groups),
            interval=interval,
            confidence=confidence,
            _index=np.array([position[g] for g in groups]),
            _rates=np.array(rates),
        )

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
        sizes = Counter(groups.tolist() if isinstance(groups, np.ndarray) else groups)
        smallest = min((m for m in sizes.values() if m > 1), default=0)
        if smallest and share >= (smallest - 1) / smallest:
            raise ValueError(
                f"noise rate must lie in [0, {smallest - 1}/{smallest}) when it counts wrong labels in a "
                f"group of {smallest} classes; found {rate!r}"
            )
        by_group = {name: share * m / (m - 1) if m > 1 else 0.0 for name, m in sizes.items()}
        return cls(tuple(groups), by_group)

    def ends(self) -> tuple[Noise, ...]:
        """Return the models at both ends of the interval."""
        return (self,) if self.interval is None else tuple(GroupNoise(self.groups, r) for r in self.interval)

    def matrix(self, k: int) -> GroupedMatrix:
        """Return P, group by group."""
        self._check(k)
        return GroupedMatrix(self._index, 1 - self._rates, self._rates / np.bincount(self._index))

    def describe(self, k: int) -> str:
        """Return the model in a few words."""
        low, high = self._rates.min(), self._rates.max()
        rate = f"rate {low:.4g}" if low == high else f"rates {low:.4g} to {high:.4g}"
        if self.interval is not None:
            rate = f"rate {self.interval[0]:.4g} to {self.interval[1]:.4g}{sure(self.confidence)}"
        return f"label noise inside {len(self._rates)} groups of classes with {rate}"

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file; groups as numbers."""
        stored = {"name": self.name, "groups": [str(g) for g in self._index]}
        if self.interval is not None:
            return stored | {"rate": self.rate, "interval": self.interval, "confidence": self.confidence}
        return stored | {"rate": {str(g): rate for g, rate in enumerate(self._rates.tolist())}}

    def __repr__(self) -> str:
        return f"GroupNoise({self.describe(len(self.groups))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupNoise) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self._index.tobytes(), self._rates.tobytes()))

    def _check(self, k: int) -> None:
        if len(self.groups) != k:
            raise ValueError(
                f"noise: groups names the groups of {len(self.groups)} classes, but probs has {k} columns"
            )

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        self._check(k)
        members = np.argsort(self._index, kind="stable")
        sizes = np.bincount(self._index)
        start = np.cumsum(sizes) - sizes
        group = self._index[labels]
        drawn = members[start[group] + rng.integers(sizes[group])]
        return np.where(rng.random(len(labels)) < self._rates[group], drawn, labels)
