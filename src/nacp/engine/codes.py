"""A formula as codes and constants, for an engine that is not Python: postfix, for a machine with a stack."""

from functools import lru_cache
from numbers import Integral
from typing import NamedTuple

import numpy as np

from nacp._types import Array, Floats
from nacp.engine.formula import QUANTITIES, Expression

# As in native.c.
_LOADS = {name: code for code, name in enumerate(QUANTITIES)}
_CONSTANT = len(_LOADS)
_NAMES = (
    "add subtract multiply divide maximum minimum equal not_equal less less_equal greater greater_equal "
    "negative absolute sqrt where"
)
_OPERATIONS = {name: _CONSTANT + 1 + i for i, name in enumerate(_NAMES.split())}
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
_LONGEST = 64


class Codes(NamedTuple):
    """A formula: pairs of a code and its argument, one after the other, and the constants."""

    codes: Array
    constants: Floats


@lru_cache(maxsize=64)
def codes_of_formula(formula: Expression) -> Codes | None:
    """Return a formula as codes; None if it has to be left to NumPy.

    That is the case for an operation that may be rounded in more than one way, for arithmetic on truth values
    and a choice by numbers (for which NumPy has rules of its own), and for very long formulas.
    """
    codes: list[tuple[int, int]] = []
    constants: list[float] = []
    try:
        kind = _write(formula, codes, constants)
    except _LeftToNumPy:
        return None
    if len(codes) > _LONGEST or kind == "bool":
        return None
    return Codes(np.array(codes, dtype=np.int32).reshape(-1), np.array(constants, dtype=np.float64))


class _LeftToNumPy(Exception):
    """A formula that is not evaluated here."""


def _write(formula: Expression | float, codes: list[tuple[int, int]], constants: list[float]) -> str:
    """Write a formula as codes; return whether its value is a bool or a number."""
    if not isinstance(formula, Expression):
        if isinstance(formula, Integral) and abs(int(formula)) > 2**53:
            raise _LeftToNumPy
        codes.append((_CONSTANT, len(constants)))
        constants.append(float(formula))
        return "bool" if isinstance(formula, bool | np.bool_) else "number"
    if not formula.parts:
        assert formula.name in QUANTITIES
        codes.append((_LOADS[formula.name], 0))
        return "number"
    if formula.name not in _OPERATIONS or (formula.name == "where" and len(formula.parts) != 3):
        raise _LeftToNumPy
    kinds = [_write(part, codes, constants) for part in formula.parts]
    codes.append((_OPERATIONS[formula.name], 0))
    compares, chooses = formula.name in _COMPARISONS, formula.name == "where"
    # NumPy has rules of its own for arithmetic on truth values.
    if not compares and "bool" in (kinds[1:] if chooses else kinds):
        raise _LeftToNumPy
    if chooses and kinds[0] != "bool":
        raise _LeftToNumPy
    return "bool" if compares else "number"
