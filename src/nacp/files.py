"""Save and load: files written whole or not at all; plain JSON with a version, read with suspicion."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, TypeVar

import numpy as np

from nacp._types import Array
from nacp.calibration import Calibration
from nacp.checks import check_choice, check_count, check_flag, check_fraction
from nacp.coverage.curve import RULES
from nacp.errors import InputError
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.guarantees import GUARANTEES
from nacp.noise import NOISES, Noise, NoiseBasis
from nacp.points import Widths, check_classes
from nacp.scores import SCORES, Custom, Score, as_score

File: TypeAlias = str | os.PathLike[str]

_FORMAT, _GROUPED = "nacp.calibration", "nacp.grouped_calibration"
_VERSION = 1
_FIELDS = (
    "alpha", "n", "k", "score", "noise", "guarantee", "crossing", "correction", "threshold",
    "native_threshold", "estimate", "deviation", "obstacle", "gap", "price_of_doubt", "note",
    "random_state", "classes", "normalize", "from_logits", "checked", "planned", "noise_basis", "several",
    "widths", "alphas", "warnings",
)  # fmt: skip
# What groups do not have in common.
_BY_GROUP = (
    "n", "guarantee", "correction", "threshold", "native_threshold", "estimate", "deviation", "obstacle",
    "gap", "price_of_doubt", "note", "checked", "several",
)  # fmt: skip
_Member = TypeVar("_Member")
_KINDS = {"i": "<i8", "f": "<f8", "u": "<u4"}  # of numbers in a file


def save_calibration(cal: Calibration, path: File) -> None:
    """Write a calibration to a JSON file; `load` reads it back. Its points and their tally are not in it."""
    write_document(path, document_of(cal))


def document_of(cal: Calibration) -> dict[str, Any]:
    """Return what a file holds of a calibration."""
    check_storable(cal.classes)
    values = {name: plain(getattr(cal, name)) for name in _FIELDS}
    return {"format": _FORMAT, "version": _VERSION} | values


def save_grouped(cal: GroupedCalibration, path: File) -> None:
    """Write a calibration by group to a JSON file; `load` reads it back."""
    different = list({id(each): each for each in cal.calibrations}.values())
    number = {id(each): i for i, each in enumerate(different)}
    check_storable(cal.classes)
    document = {
        "format": _GROUPED, "version": _VERSION, "names": list(cal.names),
        "of_name": [number[id(each)] for each in cal.calibrations], "guarantee": plain(cal.guarantee),
        "n": cal.n, "members": cal.members, "simultaneous": cal.simultaneous, "pooled": list(cal.pooled),
        "aside": cal.aside,
        "common": {name: plain(getattr(different[0], name)) for name in _FIELDS if name not in _BY_GROUP},
        "groups": [{name: plain(getattr(each, name)) for name in _BY_GROUP} for each in different],
    }  # fmt: skip
    write_document(path, document)


def load(path: File, *, score: Score | Callable[..., Any] | None = None) -> Any:
    """Read a calibration that `Calibration.save` or `GroupedCalibration.save` wrote.

    Parameters
    ----------
    path : path
        A JSON file. Nothing in it is executed.
    score : callable, optional
        The function, if the calibration was made with a score function of one's own.

    Returns
    -------
    Calibration or GroupedCalibration

    Examples
    --------
    >>> import os, tempfile
    >>> import nacp
    >>> cal = nacp.calibrate([[0.5, 0.5], [0.25, 0.75]], [0, 1], noise=None, alpha=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cal.save(os.path.join(folder, "cal.json"))
    ...     nacp.load(os.path.join(folder, "cal.json")) == cal
    True
    """
    document = read_document(path, "calibration file", (_FORMAT, _GROUPED), _VERSION)
    with reading(path):
        if document["format"] == _GROUPED:
            return _from_groups(document, score)
        return calibration_of(document, score)


def _from_groups(document: dict[str, Any], score: Any) -> GroupedCalibration:
    common, stored = dict(document["common"]), [dict(each) for each in document["groups"]]
    different = [calibration_of(common | each, score, least=0) for each in stored]
    names, members = tuple(document["names"]), document["members"]
    of_name = [_place("of_name", each, len(different)) for each in document["of_name"]]
    if not names or len(set(names)) < len(names) or len(of_name) != len(names):
        raise InputError(
            "names", "must be different, and have a calibration each", found=f"{len(names)} names"
        )
    if not all(_storable(name) and name is not None for name in names):
        raise InputError("names", "must be texts or numbers")
    if members is not None:
        members = tuple(_place("members", each, len(names)) for each in members)
        if len(members) != different[0].k:
            raise InputError(
                "members", f"must be {different[0].k:,}, one for each class", found=f"{len(members)}"
            )
    guarantee = rebuild("guarantee", GUARANTEES, document["guarantee"])
    if any(each.guarantee.name != guarantee.name for each in different):
        raise InputError("guarantee", "must be the same in all groups")
    pooled, simultaneous = tuple(document["pooled"]), check_flag("simultaneous", document["simultaneous"])
    own = [place for name, place in zip(names, of_name, strict=True) if name not in pooled]
    shared = {place for name, place in zip(names, of_name, strict=True) if name in pooled}
    if (
        not set(pooled) <= set(names)
        or len(shared) > 1
        or sorted([*own, *shared]) != [*range(len(different))]
    ):
        raise InputError("pooled", "must be names of groups: those that have a calibration in common")
    if guarantee.delta is not None:
        each_delta = guarantee.delta / (len(different) if simultaneous else 1)
        if any(each.guarantee.delta != each_delta for each in different):
            raise InputError("guarantee", f"must have the delta {each_delta:g} in each group")
    n, aside = check_count("n", document["n"], 1), check_count("aside", document["aside"])
    if n != sum(each.n for each in different) + aside:
        raise InputError(
            "n", "must be the sum of the points of all groups and of those aside", found=f"{n:,}"
        )
    return GroupedCalibration(
        names, tuple(different[i] for i in of_name), guarantee, n, members, simultaneous, pooled, aside
    )


def _place(name: str, value: Any, number: int) -> int:
    if check_count(name, value) >= number:
        raise InputError(name, f"must be less than {number:,}", found=repr(value))
    return int(value)


def calibration_of(document: dict[str, Any], score: Any, least: int = 1) -> Calibration:
    """Return the calibration that `document_of` wrote."""
    score = stored_score(dict(document["score"]), score)
    k = check_count("k", document["k"], 2)
    crossing: Any = check_choice("crossing", document["crossing"], RULES)
    noise = stored_noise(document["noise"], k)
    guarantee = rebuild("guarantee", GUARANTEES, document["guarantee"])
    guarantee.check_applies(noise, crossing)
    threshold, native = (number(name, document[name]) for name in ("threshold", "native_threshold"))
    if threshold != native + score.offset:
        raise InputError(
            "threshold",
            f"must be native_threshold {native!r} plus {score.offset!r}, the offset of {score!r}",
            found=repr(threshold),
        )
    deviation, checked, planned, several = (
        document.get(name) for name in ("deviation", "checked", "planned", "several")
    )
    return Calibration(
        alpha=check_fraction("alpha", document["alpha"]),
        n=check_count("n", document["n"], least),
        k=k,
        score=score,
        noise=noise,
        guarantee=guarantee,
        crossing=crossing,
        correction=number("correction", document["correction"]),
        native_threshold=native,
        # Files from before it was cut off may have more than 1.
        estimate=min(max(number("estimate", document["estimate"]), 0.0), 1.0),
        checked=None if checked is None else check_count("checked", checked, least),
        planned=None if planned is None else check_count("planned", planned, 1),
        deviation=None if deviation is None else number("deviation", deviation),
        obstacle=_text("obstacle", document["obstacle"]),
        gap=number("gap", document.get("gap", 0.0)),
        price_of_doubt=number("price_of_doubt", document.get("price_of_doubt", 0.0)),
        note=_text("note", document.get("note")),
        noise_basis=stored_basis(document.get("noise_basis")),
        widths=stored_widths(document.get("widths")),
        several=None if several is None else check_count("several", several, least),
        alphas=check_count("alphas", document.get("alphas", 1), 1),
        random_state=check_count("random_state", document.get("random_state", 0)),
        classes=check_classes(document["classes"], k),
        normalize=check_flag("normalize", document["normalize"]),
        from_logits=check_flag("from_logits", document.get("from_logits", False)),
        warnings=_texts("warnings", document.get("warnings", [])),
    )


# What is common to all files of the library


def write_whole(path: File, mode: Literal["w", "wb"], write: Callable[[IO[Any]], object]) -> None:
    """Let `write` fill a file; an interruption or an error leaves what was there before."""
    target = Path(os.path.realpath(path))  # a link stays one
    if target.exists() and not target.is_file():
        raise InputError(str(path), "is not a file that could be replaced", remedy="give the name of a file")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    text = mode == "w"
    try:
        with partial.open(mode, newline="" if text else None, encoding="utf-8" if text else None) as file:
            write(file)
        partial.replace(target)
    except OSError as error:
        if error.filename == str(partial):  # a name that nobody gave
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: File, text: str) -> None:
    """Write a text file, whole or not at all; the same bytes on every system."""
    write_whole(path, "w", lambda file: file.write(text))


def write_document(path: File, document: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(document, allow_nan=False, indent=1) + "\n")


def read_document(path: File, what: str, formats: Sequence[str], version: int) -> dict[str, Any]:
    """Read a JSON file, and refuse all but this version of one of the formats; new files have the first."""
    data = Path(path).read_bytes()
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        state = data.startswith(b'{"format": "nacp.calibrator"')
        why = "it is the state of a Calibrator" if state else f"it is not JSON ({error})"
        raise InputError(
            str(path), f"is not a {what}: {why}", remedy="use nacp.Calibrator.load" if state else None
        ) from None
    return _of_format(document, path, what, formats, version)


def _of_format(document: Any, path: File, what: str, formats: Sequence[str], version: int) -> dict[str, Any]:
    """Refuse what is not of this version of one of the formats."""
    if not isinstance(document, dict) or document.get("format") not in formats:
        raise InputError(str(path), f"is not a {what}: it has no format {formats[0]!r}")
    if document.get("version") != version:
        raise InputError(
            str(path), f"has version {document.get('version')!r} of the format; this nacp reads {version}"
        )
    return document


def write_numbers(path: File, document: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a line of JSON, arrays of numbers one after the other, and a checksum of it all."""
    lengths = {name: [array.dtype.kind, len(array)] for name, array in arrays.items()}
    line = json.dumps(document | {"arrays": lengths}, allow_nan=False).encode() + b"\n"
    data = [line, *(array.astype(_KINDS[array.dtype.kind]).tobytes() for array in arrays.values())]
    digest = hashlib.sha256(b"".join(data)).digest()
    write_whole(path, "wb", lambda file: file.writelines([*data, digest]))


def read_numbers(
    path: File, what: str, formats: Sequence[str], version: int
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write_numbers` wrote, and refuse it if a bit of it is missing or has changed."""
    data = Path(path).read_bytes()
    line = data.partition(b"\n")[0]
    try:
        document = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        why = ", or not a whole one: its first line is not JSON"
        if b'"nacp.calibration"' in data[:100]:
            why = ": it is a calibration; use nacp.load"
        raise InputError(str(path), f"is not a {what}{why}") from None
    document = _of_format(document, path, what, formats, version)
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise InputError(
            str(path), "is damaged: its checksum does not fit, as if part of it were missing or changed"
        )
    arrays, start = dict[str, Array](), len(line) + 1
    with reading(path):
        for name, (kind, length) in document["arrays"].items():
            dtype = np.dtype(_KINDS[kind])
            stop = start + dtype.itemsize * check_count("arrays", length)
            if stop > len(data) - 32:
                raise InputError("arrays", "are longer than the file")
            arrays[name] = np.frombuffer(data[start:stop], dtype=dtype).astype(dtype.newbyteorder("="))
            start = stop
    return document, arrays


def _refuse_constant(name: str) -> float:
    """Refuse NaN and Infinity, which JSON does not have, although Python's reader takes them."""
    raise ValueError(f"{name} is not a JSON number")


@contextmanager
def reading(path: File) -> Iterator[None]:
    """Say which file it is if one of its fields is missing or wrong."""
    try:
        yield
    except InputError as error:
        raise error.about(str(path), f"cannot be used: {error.argument} {error.problem}") from None
    except KeyError as error:
        raise InputError(str(path), f"cannot be used: it has no {error}") from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InputError(str(path), f"cannot be used: {error}") from None


def stored_score(stored: dict[str, Any], score: Any) -> Score:
    """Return the score that a file names; one's own function has to be given."""
    if stored["name"] != Custom.name:
        return rebuild("score", SCORES, stored)
    if score is None:
        raise InputError(
            "score",
            f"is one's own function, {stored['function']!r}, which is not in the file",
            remedy="pass it as score=",
            spoken="load it in Python, by nacp.load(..., score=...)",
        )
    return as_score(score)


def stored_noise(stored: Any, k: int) -> Noise | None:
    """Return the noise model for k classes that a file describes."""
    noise = None if stored is None else rebuild("noise", NOISES, stored)
    if noise is not None:
        noise.check(k)
    return noise


def rebuild(name: str, table: dict[str, type[_Member]], stored: dict[str, Any]) -> _Member:
    """Make the member of a family that its `to_dict` described."""
    parameters = dict(stored)
    return table[check_choice(name, parameters.pop("name"), tuple(table))](**parameters)


def plain(value: Any) -> Any:
    """Return what JSON can hold: for a member of a family its parameters, for infinity a word."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, NoiseBasis):
        return value._asdict()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def number(name: str, value: Any) -> float:
    """Read a number, or infinity as a word."""
    if value in ("inf", "-inf") or type(value) in (int, float):
        return float(value)
    raise InputError(name, "must be a number", found=repr(value))


def check_storable(classes: Sequence[Any] | None) -> None:
    """Refuse names of classes that JSON cannot hold."""
    odd = [name for name in classes or () if not _storable(name)]
    if odd:
        raise InputError("classes", "must be text or numbers to be saved", found=repr(odd[0]))


def _storable(name: Any) -> bool:
    return name is None or isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name))


def stored_basis(stored: Any) -> NoiseBasis | None:
    """Return what an estimate rests on, as a file says."""
    if stored is None:
        return None
    found = NoiseBasis(**stored)
    if not all(isinstance(each, str) for each in found):
        raise InputError("noise_basis", "must hold texts", found=repr(stored))
    return found


def stored_widths(stored: Any) -> Widths | None:
    """Return how wide numbers were, as a file says."""
    if stored is None:
        return None
    least, given = (check_choice("widths", each, ("float16", "float32", "float64")) for each in stored)
    return Widths(least, given)


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, list) and all(isinstance(each, str) for each in values):
        return tuple(values)
    raise InputError(name, "must be a list of texts", found=repr(values))


def _text(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InputError(name, "must be text or null", found=repr(value))
