"""Formulas as codes and constants for the compiled engine: postfix notation for a stack machine."""

from functools import lru_cache
from numbers import Integral
from typing import NamedTuple

import numpy as np

from nacp._types import Array, Floats
from nacp.engine.formula import QUANTITIES, Expression

# These codes are defined in native.c, too.
_LOADS = {name: code for code, name in enumerate(QUANTITIES)}
_CONSTANT = len(_LOADS)
_NAMES = (
    "add subtract multiply divide maximum minimum equal not_equal less less_equal greater greater_equal "
    "negative absolute sqrt where"
)
_OPERATIONS = {name: _CONSTANT + 1 + i for i, name in enumerate(_NAMES.split())}
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
_CODES_MAX = 64


class Codes(NamedTuple):
    """A formula: a flat array of pairs (code, argument), and the constants."""

    codes: Array
    constants: Floats


@lru_cache(maxsize=64)
def codes_of_formula(formula: Expression) -> Codes | None:
    """Return a formula as codes; None if only NumPy can evaluate it.

    NumPy evaluates operations whose rounding is not specified, arithmetic on booleans and conditions that are
    numbers (for both NumPy has special rules), and very long formulas.
    """
    codes: list[tuple[int, int]] = []
    constants: list[float] = []
    try:
        kind = _write(formula, codes, constants)
    except _LeftToNumPy:
        return None
    if len(codes) > _CODES_MAX or kind == "bool":
        return None
    return Codes(np.array(codes, dtype=np.int32).reshape(-1), np.array(constants, dtype=np.float64))


class _LeftToNumPy(Exception):
    """Raised for a formula that only NumPy can evaluate."""


def _write(formula: Expression | float, codes: list[tuple[int, int]], constants: list[float]) -> str:
    """Append a formula to the codes; return the type of its value, "bool" or "number"."""
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
    # NumPy has special rules for arithmetic on booleans.
    if not compares and "bool" in (kinds[1:] if chooses else kinds):
        raise _LeftToNumPy
    if chooses and kinds[0] != "bool":
        raise _LeftToNumPy
    return "bool" if compares else "number"
