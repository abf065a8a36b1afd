"""A score's formula as data: an expression over where a label stands in its row.

A formula is written once, in Python, in terms of the quantities below. Called with symbols instead of numbers
it returns itself as an expression, a small tree that any engine can evaluate. What cannot be followed in this
way (a formula that looks at the numbers, with an ``if`` say) stays a Python function, for the NumPy engine.

The quantities: ``p`` the label's probability, ``above`` and ``upto`` the mass of the labels that are strictly
and at least as probable, ``n_above`` and ``n_upto`` their numbers, ``top`` and ``second`` the row's two
largest probabilities, ``u`` the row's uniform number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

QUANTITIES = ("p", "above", "upto", "n_above", "n_upto", "top", "second", "u")


@dataclass(frozen=True, eq=False, repr=False)
class Expression(NDArrayOperatorsMixin):
    """A quantity, or a NumPy operation on expressions and numbers.

    Examples
    --------
    >>> import nacp
    >>> nacp.APS().spec.formula
    add(above, multiply(u, p))
    """

    name: str
    parts: tuple["Expression | float", ...] = ()
    __hash__ = object.__hash__  # the mixin removes it; an expression is a key of caches by its identity

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> "Expression":
        own = ufunc.nout == 1 and getattr(np, ufunc.__name__, None) is ufunc
        return self._of(ufunc.__name__, inputs, not own or method != "__call__" or bool(options))

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> "Expression":
        return self._of(function.__name__, inputs, function is not np.where or bool(options))

    def _of(self, name: str, parts: tuple[Any, ...], beyond: bool) -> "Expression":
        if beyond or not all(isinstance(part, Expression | Real) for part in parts):
            raise TypeError(f"{name} of these is not a formula of quantities and numbers")
        return Expression(name, parts)

    def __bool__(self) -> bool:
        raise TypeError("a formula has no truth value: use np.where in place of if")

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.parts))})" if self.parts else self.name


Formula: TypeAlias = Expression | Callable[[Any], Any]


class Symbols:
    """All quantities, as symbols."""

    def __getattr__(self, name: str) -> Expression:
        if name not in QUANTITIES:
            raise AttributeError(f"there is no quantity {name!r}; there are {', '.join(QUANTITIES)}")
        return Expression(name)


def traced(formula: Callable[[Any], Any]) -> Formula:
    """Return a formula as an expression, or as it is if it cannot be followed."""
    try:
        found = formula(Symbols())
    except Exception:  # whatever it does with numbers, it cannot do it with symbols
        return formula
    return found if isinstance(found, Expression) else formula
