"""What commands write: prediction sets, and calibrations as JSON."""

import csv
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from nacp._types import Array
from nacp.calibration import Calibration
from nacp.cli.formats import STDIN, escaped, kind, need, split_key
from nacp.cli.terminal import only_ascii, printable, printing
from nacp.errors import InputError
from nacp.files import write_whole
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.sets import PredictionSets

NAMES: ContextVar[Sequence[str]] = ContextVar("names", default=())
"""The texts that the command line gives to options and arguments, some of which are names of files."""


class Sets(NamedTuple):
    """The sets of some rows, with the ids of the rows and the probabilities of the labels in the sets."""

    sets: PredictionSets
    ids: Sequence[str] | None = None
    probs: Array | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what is written of each row: its id, its labels and their probabilities, as far as known."""
        for i, labels in enumerate(self.sets):
            row: dict[str, Any] = {} if self.ids is None else {"id": self.ids[i]}
            row["labels"] = labels
            if self.probs is not None:
                row["probs"] = self.probs[self.sets.offsets[i] : self.sets.offsets[i + 1]].tolist()
            yield row


def most_probable_first(sets: PredictionSets, block: Array, *, lowest: bool = False) -> PredictionSets:
    """Return the sets with the labels of each by falling probability, or by rising score."""
    rows = np.repeat(np.arange(len(sets)), sets.sizes)
    values = block[rows, sets.labels].astype(np.float64)  # neither unsigned nor truth values have negatives
    order = np.lexsort((sets.labels, values if lowest else -values, rows))
    return PredictionSets(sets.offsets, sets.labels[order], k=sets.k, classes=sets.classes, alpha=sets.alpha)


def write_sets(blocks: Iterable[Sets], name: str) -> None:
    """Write sets block by block, `-` for standard output; a file is replaced only if all are written."""
    if name == STDIN:
        with printing():
            _write_jsonl(sys.stdout, blocks, name)
        return
    mode, write = _WRITERS[kind(name)]

    def fill(file: IO[Any]) -> None:
        if not name.endswith(".gz"):
            write(file, blocks, name)
            return
        # Without the time: the same sets are the same bytes.
        with (
            gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed,
            TextIOWrapper(packed, encoding="utf-8", newline="") as text,
        ):
            write(text, blocks, name)

    write_whole(name, "wb" if name.endswith(".gz") else mode, fill)


def check_output(name: str, endings: Iterable[str] = ()) -> None:
    """Refuse a file that cannot be written, before its content is computed.

    Only sets may be written to standard output, -. Another file that the command line names must not be
    overwritten.
    """
    path, are_sets = Path(name), endings == SET_ENDINGS
    if name == STDIN:
        if are_sets:
            return
        raise InputError("this", "cannot be written to standard output: give a file; --json prints it")
    if endings and kind(path) not in endings:
        more = ", or be - for standard output" if are_sets else ""
        listed = " or ".join(", ".join(endings).rsplit(", ", 1))
        raise InputError(name, f"must end in {listed}{more}")
    if path.exists() and not path.is_file():
        raise InputError(name, "is a folder, a device or a pipe", remedy="give the name of a file")
    others = list(NAMES.get())
    if name in others:
        others.remove(name)
    files = [split_key(each)[0] for each in others]
    if path.exists() and any(os.path.exists(each) and path.samefile(each) for each in files):
        raise InputError(name, "would overwrite what is read", remedy="give another name")
    if not path.parent.is_dir():
        raise InputError(name, f"cannot be written: there is no folder {path.parent}")
    if path.suffix == ".parquet":
        need("pyarrow", path)
    if not os.access(path.parent, os.W_OK):
        raise InputError(name, f"cannot be written: the folder {path.parent} is not yours to write to")


def _write_jsonl(file: IO[str], blocks: Iterable[Sets], _: str) -> None:
    ascii_only = only_ascii(file)
    for block in blocks:
        for row in block.rows():
            line = row["labels"] if len(row) == 1 else row
            file.write(printable(json.dumps(line, ensure_ascii=ascii_only)) + "\n")


def _write_csv(file: IO[str], blocks: Iterable[Sets], name: str) -> None:
    writer, done = csv.writer(file, delimiter="\t" if kind(name) == ".tsv" else ","), 0
    for block in blocks:
        has_ids, has_probs = block.ids is not None, block.probs is not None
        if not done:
            writer.writerow(["row", *["id"] * has_ids, "label", *["prob"] * has_probs])
        for number, row in enumerate(block.rows(), done):
            start = (number, escaped(row["id"])) if has_ids else (number,)
            labels = list(map(escaped, row["labels"])) or [""]  # an empty set has a line, too
            columns = (labels, row["probs"] or [""]) if has_probs else (labels,)
            writer.writerows((*start, *cells) for cells in zip(*columns, strict=True))
        done += len(block.sets)


def _write_npz(file: IO[bytes], blocks: Iterable[Sets], _: str) -> None:
    every = list(blocks)
    sizes = np.concatenate([each.sets.sizes for each in every])
    arrays = {"labels": np.concatenate([each.sets.labels for each in every])}
    if every[0].ids is not None:
        arrays["ids"] = np.array([name for each in every for name in each.ids or ()])
    if every[0].probs is not None:
        arrays["probs"] = np.concatenate([each.probs for each in every if each.probs is not None])
    arrays["offsets"] = np.append(0, np.cumsum(sizes))
    np.savez(file, allow_pickle=False, **arrays)


def _write_parquet(file: IO[bytes], blocks: Iterable[Sets], _: str) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as stack:
        writer = None
        for sets, ids, probs in blocks:
            values = pyarrow.array(sets.labels)
            if sets.classes is not None:
                values = pyarrow.array([str(name) for name in sets.classes]).take(values)
            columns = {} if ids is None else {"id": pyarrow.array(ids)}
            columns["labels"] = pyarrow.LargeListArray.from_arrays(sets.offsets, values)
            if probs is not None:
                columns["probs"] = pyarrow.LargeListArray.from_arrays(sets.offsets, pyarrow.array(probs))
            table = pyarrow.table(columns)
            writer = writer or stack.enter_context(ParquetWriter(file, table.schema))
            writer.write_table(table)


_Write: TypeAlias = Callable[[IO[Any], Iterable[Sets], str], None]
_WRITERS: dict[str, tuple[Literal["w", "wb"], _Write]] = {
    ".parquet": ("wb", _write_parquet),
    ".jsonl": ("w", _write_jsonl),
    ".csv": ("w", _write_csv),
    ".tsv": ("w", _write_csv),
    ".npz": ("wb", _write_npz),
}
SET_ENDINGS = tuple(_WRITERS)


_OF_A_GROUP = ("n", "threshold", "estimate", "correction", "excess", "gap", "obstacle", "note", "checked")


def described(cal: Calibration | GroupedCalibration) -> dict[str, object]:
    """Return a calibration as it is printed with --json; what differs by group is None, but in its groups."""
    names = *_OF_A_GROUP, "price_of_doubt", "promise", "warnings", "alpha", "k", "classes"
    document = {name: getattr(cal, name, None) for name in names} | {
        "score": cal.score.to_dict(),
        "guarantee": cal.guarantee,
        "delta": cal.guarantee.delta,
        "noise": None if cal.noise is None else cal.noise.describe(cal.k),
    }
    if isinstance(cal, GroupedCalibration):
        document["groups"] = [
            {"group": name} | {each: getattr(own, each) for each in _OF_A_GROUP}
            for name, own in cal.groups.items()
        ]
    return document
