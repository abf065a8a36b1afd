"""What is found where the noise model is tested in each group of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nacp.wrapping import counted, on_one_line, table_lines, wrapped

if TYPE_CHECKING:
    from nacp.advice.diagnosis import Diagnosis

_SHOWN = 30


@dataclass(frozen=True)
class GroupedDiagnosis:
    """What `diagnose` found in each group of rows; print it.

    The promise for groups of rows assumes that the noise is the same in each. So the rows of each are tested
    by themselves, at the level divided by their number.

    Attributes
    ----------
    level : float
        Under a model that is right in all groups, the probability that it is rejected is at most this.
    diagnoses : dict
        For each group that was tested what was found.
    points : dict
        For each group its number of rows; one with fewer than two cannot be tested.
    """

    level: float
    diagnoses: dict[Any, Diagnosis]
    points: dict[Any, int]

    @property
    def rejected_groups(self) -> tuple[Any, ...]:
        """The groups in which the model is rejected."""
        return tuple(name for name, found in self.diagnoses.items() if found.rejected)

    @property
    def rejected(self) -> bool:
        """Whether the noise model is rejected in some group."""
        return bool(self.rejected_groups)

    def _rows(self) -> list[tuple[str, str, str]]:
        """Return name, points and what was found: those first in which the model is rejected."""
        rejected = set(self.rejected_groups)
        rows = [
            (f"{name}", f"{number:,}", "rejected" if name in rejected else "not rejected")
            if name in self.diagnoses
            else (f"{name}", f"{number:,}", "too few rows for a test")
            for name, number in self.points.items()
        ]
        return sorted(rows, key=lambda row: row[2] != "rejected")

    def _said(self) -> str:
        number, some = len(self.diagnoses), self.rejected_groups
        if not number:
            return "No group has two rows or more, so the noise model was not tested."
        how = f"at level {100 * self.level:.4g}% for {counted(number, 'group')} together"
        if not some:
            return f"The noise model is not rejected, {how}: in none of them does anything contradict it."
        first = on_one_line(self.diagnoses[some[0]])
        return f"The noise model is rejected in {counted(len(some), 'group')}, {how}.\n{some[0]}: {first}"

    def __str__(self) -> str:
        rows = self._rows()
        lines = table_lines([("group", "rows", "noise model"), *rows[:_SHOWN]], 1)
        more = [f"and {len(rows) - _SHOWN:,} groups more"] if len(rows) > _SHOWN else []
        return "\n".join([wrapped(self._said()), *lines, *more])

    def _repr_html_(self) -> str:
        from nacp.show.html import card, table, told

        rows = self._rows()[:_SHOWN]
        return card(
            "Diagnosis", told(self._said()), table(("group", "rows", "noise model"), rows, left=(0, 2))
        )
