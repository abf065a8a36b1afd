"""The state of a Calibrator as a file: a line of JSON, whole numbers, and a checksum. Read with suspicion."""

import hashlib
from typing import Any

import numpy as np

from nacp._types import Array, Floats
from nacp.calibrator import Calibrator
from nacp.checks import check_count, check_flag
from nacp.coverage.counts import MOST_POINTS, SMALL, Counts, are_strange, keeps_squares, own_parts
from nacp.errors import InputError
from nacp.files import (
    File,
    check_storable,
    plain,
    read_numbers,
    reading,
    rebuild,
    stored_basis,
    stored_noise,
    stored_score,
    stored_widths,
    write_numbers,
)
from nacp.guarantees import PAC

_FORMAT, _VERSION = "nacp.calibrator", 2
_PLAIN = ("k", "score", "noise", "classes", "normalize", "from_logits", "bets", "alphas", "points")


def save_state(calibrator: Calibrator, path: File) -> None:
    """Write a state to a file."""
    check_storable(calibrator.classes)
    values = {name: plain(getattr(calibrator, name)) for name in _PLAIN}
    values |= {"noise_basis": plain(calibrator._basis), "cells": _named(calibrator._ends), "n": 0}
    arrays = dict[str, Array]()
    counts = calibrator._counts
    if counts is not None:
        values |= {"n": counts.n, "given": counts.given, "several": calibrator._several}
        values["widths"] = calibrator._widths
        arrays = {"by_label": counts.by_label, **counts.cells}
        for i, bets in enumerate(calibrator._played.values()):
            arrays[f"bets {i}"], arrays[f"wealth {i}"] = bets.stored()
    write_numbers(path, {"format": _FORMAT, "version": _VERSION} | values, arrays)


def load_state(path: File, score: Any = None) -> Calibrator:
    """Read a state from a file."""
    document, arrays = read_numbers(path, "file of a Calibrator", (_FORMAT,), _VERSION)
    with reading(path):
        found = _settings(document, score)
        if document["n"]:
            _fill(found, document, arrays)
        return found


def _settings(document: dict[str, Any], score: Any) -> Calibrator:
    k = check_count("k", document["k"], 2)
    bets = None if document["bets"] is None else rebuild("bets", {PAC.name: PAC}, document["bets"])
    found = Calibrator(
        k,
        noise=stored_noise(document["noise"], k),
        score=stored_score(dict(document["score"]), score),
        classes=document["classes"],
        normalize=document["normalize"],
        from_logits=document["from_logits"],
        bets=bets,
        alpha=None if bets is None else document["alphas"],
        points=None if bets is None else document["points"],
    )
    found._basis = stored_basis(document["noise_basis"])
    if document["cells"] != _named(found._ends):
        raise InputError(
            "cells",
            "are not those in which this nacp counts",
            remedy="count the points again, or use the version that wrote it",
        )
    return found


def _fill(found: Calibrator, document: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Put the numbers of a file into a new state; refuse what no points could have left."""
    n, given = check_count("n", document["n"], 1), check_count("given", document["given"], 1)
    several, cells = check_flag("several", document["several"]), len(found._ends) - 1
    inverses = found._inverses(several)
    wanted = ["hits", "pairs", "places", *([] if several else ["before", "mates"])]
    for i, inverse in enumerate(inverses.values()):
        if inverse.constant_rest is None:
            wanted += [f"gains {i}", f"losses {i}"]
        if several or inverse.constant_rest is None:
            wanted += [f"own {name} {i}" for name in own_parts(inverse)]
    lengths = dict.fromkeys(wanted, cells)
    if keeps_squares([*inverses.values()], several):
        lengths["squares"] = len(found._marks)
    counts = {name: arrays[name] for name in lengths}
    fits = all(
        each.dtype == (np.uint32 if name in SMALL else np.int64)
        and len(each) == lengths[name]
        and each.min() >= 0
        for name, each in counts.items()
    )
    by_label = arrays["by_label"]
    fits = fits and by_label.shape == (len(next(iter(inverses.values())).own),) and by_label.min() >= 0
    if (
        stored_widths(document["widths"]) is None
        or not fits
        or n > MOST_POINTS
        or counts["hits"].sum() != given
        or are_strange(counts)
        or counts["pairs"].sum() != n * found.k
        or ("squares" in counts and counts["squares"].sum() != n * found.k**2)
    ):
        raise InputError("counts", "are not those of any points")
    found._counts = Counts(n, given, by_label, dict(sorted(counts.items())))
    found._widths, found._several = stored_widths(document["widths"]), several
    if found.bets is not None:
        sample = found._sample({})
        for i, model in enumerate(inverses):
            bets = found._bets_under(model, sample.seen_as[model])
            bets.restore(arrays[f"bets {i}"], arrays[f"wealth {i}"])
            found._played[model] = bets


def _named(ends: Floats) -> str:
    """Return a name for cells that others have not."""
    return hashlib.sha256(ends.astype("<f8").tobytes()).hexdigest()[:16]
