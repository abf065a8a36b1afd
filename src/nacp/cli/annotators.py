"""``nacp noise annotators``: the noise of labels by several annotators, from labelling tools."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import nacp
from nacp._types import Array
from nacp.cli import options
from nacp.cli.commands import command
from nacp.cli.formats import ARRAYS, PARQUET, checked, escaped, kind, split_key
from nacp.cli.inputs import read_class_list, read_matrix
from nacp.cli.noise import noise_app
from nacp.cli.outputs import check_output
from nacp.cli.terminal import complain, progress_of, show
from nacp.errors import InputError
from nacp.estimation import accuracy_by_annotator
from nacp.files import write_whole
from nacp.labels import FORMATS, LabelTable, from_matrix, read
from nacp.labels.exports import is_long_file


@dataclass(frozen=True, kw_only=True)
class Export:
    """How to read what a labelling tool exported."""

    format: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(FORMATS)}.", show_default="seen by the content", metavar="NAME"),
    ] = None
    control: Annotated[
        str | None, options.name("Label Studio's control, or Argilla's question, if there are several.")
    ] = None
    predictions: Annotated[
        bool, typer.Option("--predictions", help="Labels by models (predictions, suggestions) count, too.")
    ] = False
    item: Annotated[str | None, options.name("The column that names the item.")] = None
    annotator: Annotated[str | None, options.name("The column that names the annotator.")] = None
    label: Annotated[
        str | None, options.name("The column of labels; several, with commas, are annotators.")
    ] = None
    checked: Annotated[
        str | None, options.name("The column of true labels, or of whether a label was checked.")
    ] = None
    expert: Annotated[str | None, options.name("An annotator whose labels count as checked.")] = None


@command(
    "annotators",
    "nacp noise annotators votes.csv --k 10",
    "nacp noise annotators export.json --classes names.txt --model annotators --labels labels.npz",
    "nacp calibrate probs.npy labels.npz --noise noise.json --classes names.txt",
    "nacp noise annotators answers.csv --item image --annotator who --label answer --classes names.txt",
    app=noise_app,
)
def annotators_command(
    labels: Annotated[
        str,
        options.argument(
            "FILE",
            "What a labelling tool exported (Label Studio, Argilla, JSONL), a CSV of task, worker and "
            "label, or a row per item and a column per annotator, empty or -1: missing.",
        ),
    ],
    export: Export,
    k: options.NumberOfClasses = None,
    classes: options.Classes = None,
    model: Annotated[
        Literal["auto", "uniform", "matrix", "annotators"],
        typer.Option(
            metavar="NAME",
            help="uniform; or matrix, annotators: Dawid and Skene's model, one matrix or one for each; auto: "
            "annotators if one rate for all is excluded, else uniform.",
        ),
    ] = "auto",
    confidence: options.EstimateConfidence = 0.95,
    labels_out: Annotated[
        Path | None, options.file("--labels", help="A file for the labels: .npz or .csv.")
    ] = None,
    items: Annotated[
        str | None,
        options.file(help="The items in the order of the probabilities: one per line, or file.csv:column."),
    ] = None,
    out: options.EstimateOut = options.ESTIMATE,
) -> None:
    """From several labels per item; those that were checked are used, too.

    The labels for nacp calibrate come from the same file, by --labels.
    With .npz it holds all of them:

    nacp calibrate probs.npy labels.npz --noise noise.json

    With .csv it has a row per item. label is one that was picked at random
    and goes with the noise model; vote is what most said and checked is the
    truth where it is known, for labels.csv:vote --clean labels.csv:checked.
    """
    check_output(str(out))
    if labels_out is not None:
        check_output(str(labels_out), (".npz", ".csv"))
    with progress_of(f"reading {labels}") as say:
        names: Any = None if classes is None else read_class_list(classes)
        votes = read_table(labels, names, **vars(export))
        known: dict[str, Any] = {"k": k, "classes": names}
        say("estimating")
        found = nacp.noise_from_annotators(votes, model=model, confidence=confidence, **known)
        found = replace(found, classes=None if names is None else tuple(names))
        each = None
        if votes.named:
            each = accuracy_by_annotator(votes, confidence=confidence, **known)
        written = [f"Written: {out}, for nacp calibrate --noise {out}"]
        document = found.to_dict() | {"annotators": [], "out": str(out)}
        if labels_out is not None:
            written.append(write_labels(votes, labels_out, names, items))
            document["labels"] = str(labels_out)
    found.save(out)
    if each is None:
        complain(
            f"Warning: {labels} does not say whose labels they are. No accuracy of each annotator is "
            "estimated, and it would not be seen that some err more than others."
        )
        show(document, found, *written)
    else:
        document["annotators"] = each.rows
        show(document, each, "", found, *written)


def read_table(name: str, classes: list[str] | None, *, expert: str | None, **given: Any) -> LabelTable:
    """Read labels by several annotators."""
    path, key = split_key(name)
    if given["label"] is not None and "," in given["label"]:
        given["label"] = [column.strip() for column in given["label"].split(",")]
    given["predictions"] = given["predictions"] or None
    wide = kind(path) == PARQUET and (key is not None or not is_long_file(checked(path)))
    if (wide or kind(path) in ARRAYS) and all(value is None for value in given.values()):
        table = from_matrix(read_matrix(name, "labels")[0])
    else:
        table = read(checked(Path(name)), classes=classes, **given)
    try:
        return table if expert is None else table.with_checked(expert)
    except InputError as error:
        raise error.about("expert") if error.argument == "checked" else error from None


def write_labels(table: LabelTable, path: Path, classes: list[str] | None, items: str | None) -> str:
    """Write the labels of items: all of them (.npz), or one, a vote and what was checked (.csv).

    Returned is a message that says what was written.
    """
    order = None if items is None else [each for each in read_class_list(items) if each]
    if order is not None:
        known = {str(each) for each in table.items}
        unknown = [each for each in dict.fromkeys(order) if each not in known]
        if len(unknown) < len(set(order)):  # if all are unknown, they have other names: refused below
            table = LabelTable(table.given, (*table.items, *unknown), table.named)
    columns = {
        "items": np.array([str(each) for each in (table.items if order is None else order)]),
        "label": _storable(table.picked(order, classes)),
        "vote": _storable(table.votes(order, classes)),
        "checked": _storable(table.clean(order, classes)),
    }
    cells = [["" if cell in (-1, "-1") else cell for cell in each.tolist()] for each in columns.values()]
    if path.suffix == ".csv":
        rows = [list(columns), *(map(escaped, row) for row in zip(*cells, strict=True))]
        write_whole(path, "w", lambda file: csv.writer(file, lineterminator="\n").writerows(rows))
    else:
        arrays: dict[str, Any] = columns | {
            "labels": _storable(table.matrix(order, classes), ""),
            "annotators": np.array([str(each) for each in table.annotators]),
        }
        write_whole(path, "wb", lambda file: np.savez(file, **arrays))
    empty = cells[1].count("")
    left = f"; {empty:,} of {len(cells[1]):,} items have none: calibrate with --drop-unlabelled"
    return f"Written: {path}, the labels{left if empty else ''}"


def _storable(labels: Array, absent: str = "-1") -> Array:
    """Return labels without objects; of names, one that is missing is a text."""
    if labels.dtype.kind != "O":
        return labels
    flat = [absent if label is None else str(label) for label in labels.ravel().tolist()]
    return np.array(flat).reshape(labels.shape)
