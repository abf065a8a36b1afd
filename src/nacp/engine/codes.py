"""A formula as codes and constants, for an engine that is not Python: postfix, for a machine with a stack."""

from numbers import Integral
from typing import NamedTuple

import numpy as np

from nacp._types import Array, Floats
from nacp.engine.formula import QUANTITIES, Expression

# As in rows.h.
_LOADS = {name: code for code, name in enumerate(QUANTITIES)}
_CONSTANT = len(_LOADS)
_OPERATIONS = {
    name: _CONSTANT + 1 + i
    for i, name in enumerate((
        "add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "not_equal", "less",
        "less_equal", "greater", "greater_equal", "negative", "absolute", "sqrt", "where",
    ))
}  # fmt: skip
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
_DEPTH = 16


class Codes(NamedTuple):
    """A formula: rows of a code and its argument, None for -p; and the constants."""

    codes: Array | None
    constants: Floats


def codes_of_formula(formula: object, *, ranked: bool) -> Codes | None:
    """Return a formula as codes; None if it has to be left to NumPy.

    That is a Python function, an operation that may be rounded in more than one way, arithmetic on truth
    values and a choice by numbers (for which NumPy has rules of its own), and of pointwise scores all but -p.
    """
    if not isinstance(formula, Expression):
        return None
    if not ranked:
        return Codes(None, np.empty(0)) if repr(formula) == "negative(p)" else None
    codes: list[tuple[int, int]] = []
    constants: list[float] = []
    try:
        depth, kind = _write(formula, codes, constants)
    except _LeftToNumPy:
        return None
    if depth > _DEPTH or kind == "bool":
        return None
    return Codes(np.array(codes, dtype=np.int32), np.array(constants, dtype=np.float64))


class _LeftToNumPy(Exception):
    """A formula that is not evaluated here."""


def _write(
    formula: Expression | float, codes: list[tuple[int, int]], constants: list[float]
) -> tuple[int, str]:
    """Write a formula as codes; return how deep a stack it takes, and whether it is a bool or a number."""
    if not isinstance(formula, Expression):
        if isinstance(formula, Integral) and abs(int(formula)) > 2**53:
            raise _LeftToNumPy
        codes.append((_CONSTANT, len(constants)))
        constants.append(float(formula))
        return 1, "bool" if isinstance(formula, bool | np.bool_) else "number"
    if not formula.parts:
        assert formula.name in QUANTITIES
        codes.append((_LOADS[formula.name], 0))
        return 1, "number"
    if formula.name not in _OPERATIONS:
        raise _LeftToNumPy
    written = [_write(part, codes, constants) for part in formula.parts]
    kinds = [kind for _, kind in written]
    codes.append((_OPERATIONS[formula.name], 0))
    compares, chooses = formula.name in _COMPARISONS, formula.name == "where"
    # NumPy has rules of its own for arithmetic on truth values.
    if not compares and "bool" in (kinds[1:] if chooses else kinds):
        raise _LeftToNumPy
    if chooses and kinds[0] != "bool":
        raise _LeftToNumPy
    depth = max(i + depth for i, (depth, _) in enumerate(written))
    return depth, "bool" if compares else "number"
