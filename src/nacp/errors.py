"""The error for wrong input: it names the argument, what was found, and what would be accepted."""

import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any


class InputError(ValueError):
    """A wrong input. The message is one sentence: ``argument problem; found …; remedy``.

    Attributes
    ----------
    argument : str
        The name of the argument in Python. The command line replaces it by the name of its option.
    problem : str
        What is wrong with the argument, or what it must be.
    found : str or None
        What was found.
    remedy : str or None
        What would be accepted, in Python.
    spoken : str or None
        The remedy on the command line, if it differs; empty if there is none.

    Examples
    --------
    >>> import nacp
    >>> try:
    ...     nacp.UniformNoise(1.5)
    ... except nacp.InputError as error:
    ...     error.argument, error.problem, error.found
    ('rate', 'must lie in [0, 1)', '1.5')
    """

    def __init__(
        self,
        argument: str,
        problem: str,
        *,
        found: object = None,
        remedy: str | None = None,
        spoken: str | None = None,
    ) -> None:
        self.argument, self.problem = argument, problem
        self.found = None if found is None else found if isinstance(found, str) else repr(found)
        self.remedy, self.spoken = remedy, spoken
        super().__init__(self.sentence(argument))

    def sentence(self, name: str, *, spoken: bool = False) -> str:
        """Return the sentence with another name for the argument, and the remedy of the command line."""
        remedy = self.spoken if spoken and self.spoken is not None else self.remedy
        parts = [f"{name} {self.problem}".strip(), self.found and f"found {self.found}", remedy]
        return "; ".join(part for part in parts if part)

    def about(self, argument: str, problem: str | None = None) -> "InputError":
        """Return the same error for an argument of another name, or with the problem in other words."""
        problem = self.problem if problem is None else problem
        return InputError(argument, problem, found=self.found, remedy=self.remedy, spoken=self.spoken)

    def __reduce__(self) -> tuple[object, ...]:
        told = partial(InputError, found=self.found, remedy=self.remedy, spoken=self.spoken)
        return told, (self.argument, self.problem)


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the caller's line outside of nacp."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "nacp":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def meant(odd: object, names: Sequence[Any]) -> str:
    """Return the question whether the most similar name was meant, if there is one."""
    found = get_close_matches(str(odd), list(map(str, names)), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""
