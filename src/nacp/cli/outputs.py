"""What commands write: sets, as they come, whole or not at all; and what is said of a calibration."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from nacp.calibration import Calibration
from nacp.cli.tables import STDIN, need, split_key
from nacp.errors import InputError
from nacp.files import write_whole
from nacp.sets import PredictionSets


def write_sets(blocks: Iterable[PredictionSets], name: str) -> None:
    """Write sets, block after block, as they come.

    ``.jsonl``, and ``-`` for standard output: one list per line. ``.csv``: row, label. ``.parquet``: one
    column of lists. ``.npz``: offsets and labels, as in `PredictionSets`.
    """
    if name == STDIN:
        _write_jsonl(sys.stdout, blocks)
        return
    mode, write = _WRITERS[Path(name).suffix]
    write_whole(name, mode, lambda file: write(file, blocks))


def check_output(name: str, endings: Iterable[str] = (), inputs: Iterable[str | None] = ()) -> None:
    """Say what is wrong with a file that is to be written, before hours are spent on what goes into it.

    With `endings` it may be - for standard output. `inputs` are read, and must not be overwritten.
    """
    path = Path(name)
    if endings and path.suffix not in endings and name != STDIN:
        *most, last = endings
        raise InputError(name, f"must end in {', '.join(most)} or {last}, or be - for standard output")
    if name == STDIN:
        if endings:
            return
        raise InputError("this", "cannot be written to standard output: give a file; --json prints it")
    if path.is_dir():
        raise InputError(name, "is a folder", remedy="give the name of a file in it")
    if path.exists() and not path.is_file():
        raise InputError(name, "is a device or a pipe", remedy="give the name of a file")
    read = [split_key(each)[0] for each in inputs if each is not None]
    if path.exists() and any(each.exists() and path.samefile(each) for each in read):
        raise InputError(name, "would overwrite what is read", remedy="give another name")
    if not path.parent.is_dir():
        raise InputError(name, f"cannot be written: there is no folder {path.parent}")
    if path.suffix == ".parquet":
        need("pyarrow", path)
    if not os.access(path.parent, os.W_OK):
        raise InputError(name, f"cannot be written: the folder {path.parent} is not yours to write to")


def _write_jsonl(file: IO[str], blocks: Iterable[PredictionSets]) -> None:
    for sets in blocks:
        file.writelines(json.dumps(labels, ensure_ascii=False) + "\n" for labels in sets)


def _write_csv(file: IO[str], blocks: Iterable[PredictionSets]) -> None:
    writer, done = csv.writer(file), 0
    writer.writerow(("row", "label"))
    for sets in blocks:
        writer.writerows((i, label) for i, labels in enumerate(sets, done) for label in labels)
        done += len(sets)


def _write_npz(file: IO[bytes], blocks: Iterable[PredictionSets]) -> None:
    sizes, labels = zip(*((sets.sizes, sets.labels) for sets in blocks), strict=True)
    np.savez(file, offsets=np.append(0, np.cumsum(np.concatenate(sizes))), labels=np.concatenate(labels))


def _write_parquet(file: IO[bytes], blocks: Iterable[PredictionSets]) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as stack:
        writer = None
        for sets in blocks:
            values = pyarrow.array(sets.labels)
            if sets.classes is not None:
                values = pyarrow.array([str(name) for name in sets.classes]).take(values)
            lists = pyarrow.LargeListArray.from_arrays(sets.offsets, values)
            table = pyarrow.table({"labels": lists})
            writer = writer or stack.enter_context(ParquetWriter(file, table.schema))
            writer.write_table(table)


_WRITERS: dict[str, tuple[Literal["w", "wb"], Callable[[IO[Any], Iterable[PredictionSets]], None]]] = {
    ".parquet": ("wb", _write_parquet),
    ".jsonl": ("w", _write_jsonl),
    ".csv": ("w", _write_csv),
    ".npz": ("wb", _write_npz),
}
SET_ENDINGS = tuple(_WRITERS)


def described(calibration: Calibration) -> dict[str, object]:
    """Return what there is to know about a calibration."""
    noise, classes = calibration.noise, calibration.classes
    return {
        "threshold": calibration.threshold,
        "correction": calibration.correction,
        "excess": calibration.excess,
        "estimate": calibration.estimate,
        "promise": calibration.promise,
        "obstacle": calibration.obstacle,
        "note": calibration.note,
        "warnings": calibration.warnings,
        "gap": calibration.gap,
        "price_of_doubt": calibration.price_of_doubt,
        "alpha": calibration.alpha,
        "n": calibration.n,
        "k": calibration.k,
        "checked": calibration.checked,
        "score": calibration.score.to_dict(),
        "guarantee": calibration.guarantee.name,
        "delta": calibration.guarantee.delta,
        "noise": None if noise is None else noise.describe(calibration.k),
        "classes": None if classes is None else list(classes),
    }
