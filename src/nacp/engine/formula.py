"""The formula of a score as an expression of a label's probability and rank in its row.

A formula is a Python function of the quantities below. Called with symbols in place of numbers, it returns an
expression, a small tree that any engine can evaluate. A function that cannot be traced in this way (for
example because it contains an ``if``) remains a function, which the NumPy engine calls.

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
    # The mixin removes the hash, but expressions are keys of caches. They are compared by identity.
    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> "Expression":
        own = ufunc.nout == 1 and getattr(np, ufunc.__name__, None) is ufunc
        return self._of(ufunc.__name__, inputs, not own or method != "__call__" or bool(options))

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> "Expression":
        return self._of(function.__name__, inputs, function is not np.where or bool(options))

    def _of(self, name: str, parts: tuple[Any, ...], beyond: bool) -> "Expression":
        if beyond or not all(isinstance(part, Expression | Real) for part in parts):
            raise TypeError(f"{name} of these operands is not a formula of quantities and numbers")
        return Expression(name, parts)

    def __bool__(self) -> bool:
        raise TypeError("a formula has no truth value: use np.where instead of if")

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.parts))})" if self.parts else self.name


Formula: TypeAlias = Expression | Callable[[Any], Any]


class Symbols:
    """All quantities, as symbols."""

    def __getattr__(self, name: str) -> Expression:
        if name not in QUANTITIES:
            raise AttributeError(f"there is no quantity {name!r}; use one of {', '.join(QUANTITIES)}")
        return Expression(name)


def traced(formula: Callable[[Any], Any]) -> Formula:
    """Return a formula as an expression, or unchanged if it cannot be traced."""
    try:
        found = formula(Symbols())
    except Exception:  # A formula may raise any error when it is called with symbols.
        return formula
    return found if isinstance(found, Expression) else formula
