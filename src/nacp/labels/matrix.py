"""A label matrix, as Snorkel's: a row for each item, a column for each labelling function, -1 abstains."""

from collections.abc import Sequence
from typing import Any

from nacp.errors import InputError
from nacp.labels.table import GivenLabel, LabelTable
from nacp.points import open_table


def from_matrix(
    labels: Any, *, items: Sequence[Any] | None = None, annotators: Sequence[Any] | None = None
) -> LabelTable:
    """Read a label matrix: a row for each item, a column for each annotator or labelling function.

    Parameters
    ----------
    labels : array of shape (n, annotators)
        Numbers, or names. -1, nan, None and an empty text are abstentions.
    items, annotators : sequence, optional
        What the rows and the columns are called; by default their numbers, or those of a DataFrame.

    Returns
    -------
    LabelTable

    Examples
    --------
    >>> from nacp.labels import from_matrix
    >>> table = from_matrix([[0, -1, 1], [1, 1, -1]], annotators=["keyword", "regex", "model"])
    >>> len(table.given), table.matrix().tolist()
    (4, [[0, -1, 1], [1, 1, -1]])
    """
    if annotators is None and hasattr(labels, "columns") and hasattr(labels, "iloc"):
        annotators = list(labels.columns)
    array, missing = open_table(labels)
    for name, given, length in (("items", items, len(array)), ("annotators", annotators, array.shape[1])):
        if given is not None and (len(given) != length or len(set(given)) != length):
            raise InputError(
                name, f"must hold {length:,} different names", found=f"{len(set(given)):,} of {len(given):,}"
            )
    rows = range(len(array)) if items is None else items
    columns = range(array.shape[1]) if annotators is None else annotators
    odd = array[~missing]
    if odd.dtype.kind == "f" and (odd != odd.round()).any():
        raise InputError(
            "labels", "must be whole numbers, -1 for an abstention", found=f"{odd[odd != odd.round()][0]:.6g}"
        )
    values = array.tolist()
    return LabelTable(
        tuple(
            GivenLabel(item, annotator, values[i][j])
            for j, annotator in enumerate(columns)  # first, so that annotators keep their order
            for i, item in enumerate(rows)
            if not missing[i, j]
        ),
        tuple(rows),
    )
