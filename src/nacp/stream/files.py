"""The state of a Calibrator as a file: a line of JSON, whole numbers, and a checksum. Read with suspicion."""

import hashlib
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.checks import check_count, check_flag
from nacp.coverage.grid import GRID
from nacp.coverage.tally import PART, Tally
from nacp.errors import InputError
from nacp.files import (
    File,
    check_storable,
    plain,
    read_numbers,
    reading,
    stored_basis,
    stored_noise,
    stored_score,
    stored_widths,
    write_numbers,
)
from nacp.stream.calibrator import SETTINGS, Calibrator, Counts

_FORMAT, _VERSION = "nacp.calibrator", 3
_ARRAYS = ("by_label", "cells", "hits", "pairs", "gains", "losses", "squares")
_GRID = hashlib.sha256(GRID.astype("<f8").tobytes()).hexdigest()[:16]


def save_state(calibrator: Calibrator, path: File) -> None:
    """Write a state to a file."""
    check_storable(calibrator.classes)
    values = {name: plain(getattr(calibrator, name)) for name in SETTINGS}
    values |= {"noise_basis": plain(calibrator._basis), "grid": _GRID, "n": 0}
    arrays = dict[str, Array]()
    counts = calibrator._counts
    if counts is not None:
        tallies = list(counts.tallies.values())
        values |= {"n": counts.n, "several": counts.several, "widths": counts.widths}
        values["units"] = [tally.unit for tally in tallies]
        for i, tally in enumerate(tallies):
            kept = {f"{name} {i}": getattr(tally, name) for name in _ARRAYS}
            arrays |= {name: each for name, each in kept.items() if each is not None}
    write_numbers(path, {"format": _FORMAT, "version": _VERSION} | values, arrays)


def load_state(path: File, score: Any = None) -> Calibrator:
    """Read a state from a file."""
    document, arrays = read_numbers(path, "file of a Calibrator", (_FORMAT,), _VERSION)
    with reading(path):
        k = check_count("k", document["k"], 2)
        found = Calibrator(
            k,
            noise=stored_noise(document["noise"], k),
            score=stored_score(dict(document["score"]), score),
            classes=document["classes"],
            normalize=document["normalize"],
            from_logits=document["from_logits"],
        )
        found._basis = stored_basis(document["noise_basis"])
        if document["grid"] != _GRID:
            raise InputError(
                "grid",
                "is not that of this nacp",
                remedy="count the points again, or use the version that wrote it",
            )
        if document["n"]:
            several = check_flag("several", document["several"])
            found._counts = _counts(document, arrays, found, several)
        return found


def _counts(document: dict[str, Any], arrays: dict[str, Array], stream: Calibrator, several: bool) -> Counts:
    """Return the counts in a file; refuse those that no points could have left."""
    kinds, k = stream._kinds(several), stream.k
    n, widths = check_count("n", document["n"], 1), stored_widths(document["widths"])
    impossible = InputError("counts", "are not those of any points")
    if widths is None or n > kinds.most_points or any(each.dtype != np.int64 for each in arrays.values()):
        raise impossible
    tallies = {}
    for i, (model, unit) in enumerate(zip(kinds.needed, document["units"], strict=True)):
        counted: dict[str, Any] = {name: arrays.get(f"{name} {i}") for name in _ARRAYS[4:]}
        counted |= {name: arrays[f"{name} {i}"] for name in _ARRAYS[:4]}
        tallies[model] = Tally(n, k, **counted, unit=unit, part=PART if several else 1.0)
    counts = Counts(tallies, several, widths)
    if not kinds.possible(counts, stream.score.spec):
        raise impossible
    return counts
