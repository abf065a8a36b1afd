"""Checks of single values: a fraction, a count, a choice. Rows and labels are checked in `nacp.points`."""

import math
import numbers
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any

import numpy as np

from nacp._types import Floats
from nacp.errors import InputError, warn

_ALPHA_DOUBTED_MIN = 0.5
_LEAST_FRACTION = 1e-300  # 1 / delta is then finite


def check_fraction(name: str, value: Any) -> float:
    """Check a number strictly between 0 and 1, such as alpha or delta."""
    tiny = isinstance(value, float) and bool(0 < value < _LEAST_FRACTION)
    problem = "must lie strictly between 0 and 1" + f", and be at least {_LEAST_FRACTION:g}" * tiny
    return _real(name, value, problem, _LEAST_FRACTION, 1.0, alpha_meant)


def check_rate(value: Any, name: str = "rate") -> float:
    """Check a noise rate in [0, 1)."""
    try:
        return _real(name, value, "must lie in [0, 1)", 0.0, 1.0)
    except InputError as error:
        raise InputError(name, error.problem, found=error.found, remedy=rate_meant(value)) from None


def rate_meant(value: Any) -> str | None:
    """Return a remedy for a rate that was given in percent or as text; None if it is neither.

    Examples
    --------
    >>> from nacp.checks import rate_meant
    >>> rate_meant(20), rate_meant("20%"), rate_meant("0.2"), rate_meant(1.5), rate_meant("uniform")
    ('write 0.2', 'write 0.2', 'write 0.2', None, None)
    """
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        return None
    percent = text.endswith("%") or (2 <= number < 100 and not isinstance(value, str))
    meant = number / 100 if percent else number
    return f"write {meant:.6g}" if 0 <= meant < 1 else None


def alpha_meant(name: str, value: Any) -> dict[str, str]:
    """Return remedies, in Python and on the command line, for an alpha that was given in percent.

    Examples
    --------
    >>> from nacp.checks import alpha_meant
    >>> alpha_meant("alpha", 90)["remedy"], alpha_meant("alpha", "10%")["spoken"]
    ('for 90% coverage pass alpha=0.1', 'for 90% coverage give --alpha 0.1')
    """
    with suppress(ValueError):
        number = float(str(value).removesuffix("%"))
        if name == "alpha" and 1 < number < 100:
            coverage = number if number >= 50 else 100 - number
            said, share = f"for {coverage:g}% coverage", f"{1 - coverage / 100:.4g}"
            return {"remedy": f"{said} pass alpha={share}", "spoken": f"{said} give --alpha {share}"}
    return {}


def check_interval(rate: float, interval: Any, confidence: Any) -> tuple[tuple[float, float] | None, float]:
    """Check an interval around a noise rate, if there is one, and its confidence."""
    if interval is None:
        if confidence != 1:
            raise InputError(
                "confidence",
                "is that of an interval, and there is none",
                remedy="pass interval=(low, high) too",
                spoken="give --noise-interval LOW HIGH too",
            )
        return None, 1.0
    if np.shape(interval) != (2,):
        raise InputError("interval", "must be two numbers, low and high", found=repr(interval))
    low, high = (check_rate(end, "interval") for end in interval)
    if not low <= rate <= high:
        raise InputError("interval", f"must contain the rate {rate!r}", found=repr(interval))
    return (low, high), check_confidence(confidence)


def check_confidence(confidence: Any) -> float:
    """Check a confidence, which may be 1."""
    return 1.0 if confidence == 1 else check_fraction("confidence", confidence)


def check_priors(priors: Any, k: int, name: str = "priors") -> Floats:
    """Check class probabilities: k positive numbers that sum to 1."""
    given = np.asarray(priors, dtype=np.float64)
    if given.shape != (k,) or not np.all(given > 0) or abs(given.sum() - 1) > 1e-6:
        raise InputError(
            name,
            f"must be {k:,} positive numbers that sum to 1",
            found=f"shape {given.shape}, smallest {given.min(initial=np.inf):.4g}, sum {given.sum():.6g}",
        )
    return given


def check_nonnegative(name: str, value: Any) -> float:
    """Check a finite number of at least 0."""
    return _real(name, value, "must be a number of at least 0", 0.0, math.inf)


def check_finite(name: str, value: Any) -> float:
    """Check a finite number."""
    return _real(name, value, "must be a finite number", -sys.float_info.max, math.inf)


def _real(
    name: str,
    value: Any,
    problem: str,
    least: float,
    end: float,
    remedies: Callable[[str, Any], dict[str, str]] | None = None,
) -> float:
    """Check a real number from `least` on and below `end`; `remedies` says what was probably meant."""
    with suppress(OverflowError):
        if isinstance(value, numbers.Real) and not isinstance(value, bool) and least <= float(value) < end:
            return float(value)
    raise InputError(name, problem, found=repr(value)[:80], **(remedies(name, value) if remedies else {}))


def check_count(name: str, value: Any, least: int = 0) -> int:
    """Check a whole number of at least `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise InputError(name, f"must be a whole number of at least {least}", found=repr(value))
    return int(value)


def check_seed(name: str, value: Any) -> int:
    """Check a whole number."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise InputError(name, "must be a whole number", found=repr(value))
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Check True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(name, "must be True or False", found=repr(value))
    return bool(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Check one of a few words."""
    if value not in choices:
        raise InputError(name, f"must be one of {', '.join(map(repr, choices))}", found=repr(value))
    return str(value)


def check_alphas(alpha: Any) -> list[float]:
    """Check one alpha or several."""
    alphas = list(map(check_fraction, repeat("alpha"), np.array(alpha, dtype=object, ndmin=1)))
    if not alphas:
        raise InputError("alpha", "is empty", remedy="pass one number or several")
    if max(alphas) >= _ALPHA_DOUBTED_MIN:
        largest, rest = f"{max(alphas):g}", f"{1 - max(alphas):.4g}"
        said = f"alpha = {largest} is the share of true labels that sets may miss"
        warn(f"{said}, so only {rest} is promised; for a coverage of {largest}, alpha is {rest}", UserWarning)
    return alphas


def check_fields(instance: object, **checks: Callable[[str, Any], Any]) -> None:
    """Check fields of a frozen dataclass, and store the results."""
    set_checked(instance, **{name: check(name, getattr(instance, name)) for name, check in checks.items()})


def set_checked(instance: object, **values: Any) -> None:
    """Store checked values in the fields of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
