"""Save and load: JSON files with a version and a checksum, written whole or not at all."""

import hashlib
import json
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, TypeVar

from nacp.calibration import Calibration
from nacp.checks import check_choice, check_count, check_flag, check_fraction
from nacp.coverage.curve import RULES
from nacp.errors import InputError
from nacp.groups.grouped_calibration import GroupedCalibration, share_delta
from nacp.guarantees import GUARANTEES
from nacp.noise import NOISES, Noise, NoiseBasis
from nacp.points import Widths, check_classes
from nacp.scores import SCORES, Score, as_score

File: TypeAlias = str | os.PathLike[str]

_FORMAT, _GROUPED = "nacp.calibration", "nacp.grouped_calibration"
_VERSION = 1
# The fields that all groups have in common, stored once.
_SHARED = ("alpha", "k", "score", "noise", "noise_basis", "classes", "crossing", "widths", "warnings")
_MOST_CLASSES = 2**31 - 1
_Member = TypeVar("_Member")
_Check: TypeAlias = Callable[[str, Any], Any]


def document_of(cal: Calibration) -> dict[str, Any]:
    """Return a calibration as a document for a file."""
    check_storable(cal.classes)
    names = ["k", "score", "noise", "guarantee", "crossing", "threshold", "classes", *_CHECKS]
    return {"format": _FORMAT, "version": _VERSION} | {name: plain(getattr(cal, name)) for name in names}


def save_grouped(cal: GroupedCalibration, path: File) -> None:
    """Write a calibration by group to a JSON file; `load` reads it back."""
    different = list({id(each): each for each in cal.calibrations}.values())
    number = {id(each): i for i, each in enumerate(different)}
    document = {
        "format": _GROUPED,
        "version": _VERSION,
        "names": list(cal.names),
        "of_name": [number[id(each)] for each in cal.calibrations],
        "guarantee": plain(cal.guarantee),
        "n": cal.n,
        "members": cal.members,
        "simultaneous": cal.simultaneous,
        "pooled": list(cal.pooled),
        "aside": cal.aside,
        "common": {name: value for name, value in document_of(different[0]).items() if name in _SHARED},
        "groups": [
            {name: plain(getattr(each, name)) for name in ("guarantee", "threshold", *_CHECKS)}
            for each in different
        ],
    }
    write_document(path, document)


def load(path: File, *, score: Score | Callable[..., Any] | None = None) -> Any:
    """Read a calibration that `Calibration.save` or `GroupedCalibration.save` wrote.

    Parameters
    ----------
    path : path
        A JSON file. Nothing in it is executed.
    score : callable, optional
        The function, if the calibration was made with a custom score.

    Returns
    -------
    Calibration or GroupedCalibration

    Examples
    --------
    >>> import tempfile
    >>> import nacp
    >>> cal = nacp.calibrate([[0.5, 0.5], [0.25, 0.75]], [0, 1], noise=None, alpha=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cal.save(f"{folder}/cal.json")
    ...     nacp.load(f"{folder}/cal.json") == cal
    True
    """
    document = read_document(path, "calibration file", (_FORMAT, _GROUPED), _VERSION)
    with reading(path):
        if document["format"] == _GROUPED:
            return _from_groups(document, score)
        return calibration_of(document, score)


def _from_groups(document: dict[str, Any], score: Any) -> GroupedCalibration:
    common = dict(document["common"])
    different = [calibration_of(dict(each) | common, score, least=0) for each in document["groups"]]
    k, names, pooled = different[0].k, tuple(document["names"]), tuple(document["pooled"])
    of_name = [check_count("of_name", each) for each in document["of_name"]]
    members = document["members"]
    if members is not None:
        members = tuple(check_count("members", each) for each in members)
    guarantee = rebuild("guarantee", GUARANTEES, document["guarantee"])
    simultaneous = check_flag("simultaneous", document["simultaneous"])
    each_guarantee = share_delta(guarantee, len(different)) if simultaneous else guarantee
    n, aside = check_count("n", document["n"], 1), check_count("aside", document["aside"])
    own = [place for name, place in zip(names, of_name, strict=True) if name not in pooled]
    shared = {place for name, place in zip(names, of_name, strict=True) if name in pooled}
    wrong = {
        "names": len(set(names)) < len(names) or None in names or not all(map(_storable, names)),
        "pooled": not set(pooled) <= set(names) or len(shared) > 1,
        "of_name": sorted([*own, *shared]) != [*range(len(different))],
        "members": members is not None and (len(members) != k or max(members) >= len(names)),
        "guarantee": any(each.guarantee != each_guarantee for each in different),
        "n": n != sum(each.n for each in different) + aside,
    }
    for field, is_wrong in wrong.items():
        if is_wrong:
            raise InputError(field, "does not fit the other fields", found=repr(document[field])[:80])
    calibrations = tuple(different[i] for i in of_name)
    return GroupedCalibration(names, calibrations, guarantee, n, members, simultaneous, pooled, aside)


def calibration_of(document: dict[str, Any], score: Any, least: int = 1) -> Calibration:
    """Return the calibration that `document_of` wrote, with at least `least` points."""
    score, k = stored_score(dict(document["score"]), score), stored_k(document["k"])
    crossing: Any = check_choice("crossing", document["crossing"], RULES)
    noise = stored_noise(document["noise"], k)
    guarantee = rebuild("guarantee", GUARANTEES, document["guarantee"])
    guarantee.check_applies(noise, crossing)
    values = {name: check(name, document[name]) for name, check in _CHECKS.items()}
    check_count("n", values["n"], least)
    look, looks = values["look"], values["looks"]
    if looks is not None and not 1 <= look <= looks:
        raise InputError("look", f"must lie between 1 and {looks}, the number of looks", found=repr(look))
    threshold, native = number("threshold", document["threshold"]), values["native_threshold"]
    low, high = score.span
    if not (low <= native <= high or native == math.inf):
        problem = f"must be a threshold of {score!r}, from {low + score.offset:g} to {high + score.offset:g}"
        raise InputError("threshold", problem, found=repr(threshold))
    if threshold != native + score.offset:
        problem = f"must be native_threshold {native!r} plus {score.offset!r}, the offset of {score!r}"
        raise InputError("threshold", problem, found=repr(threshold))
    return Calibration(
        k=k,
        score=score,
        noise=noise,
        guarantee=guarantee,
        crossing=crossing,
        classes=check_classes(document["classes"], k),
        **values,
    )


# Common to all files of the library


def write_whole(path: File, mode: Literal["w", "wb"], write: Callable[[IO[Any]], object]) -> None:
    """Let `write` fill a file; after an interruption or an error the old file is still there.

    The content is written to a new file in the same folder, ``.nacp-….partial`` with a random name, which
    then replaces the old file. Several threads and processes may write at once; the last one prevails. Only a
    process that is killed leaves such a file behind, which can be deleted.
    """
    target = Path(os.path.realpath(path))  # a link stays one
    if target.exists() and not target.is_file():
        raise InputError(str(path), "is not a file that could be replaced", remedy="give the name of a file")
    partial = target.with_name(f".nacp-{secrets.token_hex(8)}.partial")
    kept = target.stat().st_mode & 0o777 if target.exists() else None
    text: dict[str, Any] = {"newline": "", "encoding": "utf-8"} if mode == "w" else {}

    def create(name: str, flags: int) -> int:  # the mode "x" refuses what exists, also a symbolic link
        return os.open(name, flags, 0o666 if kept is None else kept)

    try:
        with open(partial, mode.replace("w", "x"), opener=create, **text) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if kept is not None:
            partial.chmod(kept)  # `create` could only give less, by the umask
        partial.replace(target)
    except OSError as error:
        # A full disk has no file name, and the user does not know the name of the partial file.
        if error.filename in (None, str(partial)):
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
    with suppress(OSError), ExitStack() as stack:  # not every system can sync a folder
        folder = os.open(target.parent, os.O_RDONLY)
        stack.callback(os.close, folder)
        os.fsync(folder)


def write_text(path: File, text: str) -> None:
    """Write a text file, whole or not at all; the same bytes on every system."""
    write_whole(path, "w", lambda file: file.write(text))


def write_document(path: File, document: dict[str, Any]) -> None:
    """Write a JSON file with a checksum, whole or not at all."""
    write_text(path, json.dumps(sealed(document), allow_nan=False, indent=1) + "\n")


def read_document(path: File, what: str, formats: Sequence[str], version: int) -> dict[str, Any]:
    """Read a JSON file; refuse other versions and formats. The first format is named in messages."""
    try:
        document = parse(Path(path).read_bytes().decode("utf-8"))
    except ValueError as error:
        raise InputError(str(path), f"is not a {what}: it is not JSON ({error})") from None
    if not isinstance(document, dict) or document.get("format") not in formats:
        raise InputError(str(path), f"is not a {what}: it has no format {formats[0]!r}")
    if (found := document.get("version")) != version:
        raise InputError(str(path), f"has version {found!r} of the format; this nacp reads {version}")
    with suppress(RecursionError):
        if document.get("checksum") == _checksum(document):
            return document
    raise InputError(str(path), "is damaged: its checksum does not fit, as if it were cut off or changed")


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with a checksum, which does not depend on the layout of the JSON text."""
    document = json.loads(json.dumps(document, allow_nan=False))
    return document | {"checksum": _checksum(document)}


def _checksum(document: dict[str, Any]) -> str:
    rest = {name: value for name, value in document.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def parse(text: str) -> Any:
    """Parse JSON strictly by the standard; a ValueError says what is wrong."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_refuse_twice,
            parse_int=partial(_finite, int),
            parse_float=partial(_finite, float),
            parse_constant=partial(_finite, float),
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(kind: type[float], text: str) -> float:
    """Read a number; refuse NaN and infinity, which are not JSON, and numbers beyond the range of floats."""
    if not abs(number := kind(text)) <= sys.float_info.max:
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with a repeated key, of which Python's reader takes the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a key twice")
    return found


@contextmanager
def reading(path: File) -> Iterator[None]:
    """Name the file in errors about its fields."""
    try:
        yield
    except InputError as error:
        raise error.about(str(path), f"cannot be used: {error.argument} {error.problem}") from None
    except KeyError as error:
        raise InputError(str(path), f"cannot be used: it has no {error}") from None
    except (TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        raise InputError(str(path), f"cannot be used: {error}") from None


def stored_score(stored: dict[str, Any], score: Any) -> Score:
    """Return the score that a file names; a custom function must be given."""
    if "function" not in stored:
        return rebuild("score", SCORES, stored)
    if score is None:
        raise InputError(
            "score",
            f"is the custom function {stored['function']!r}, which is not in the file",
            remedy="pass it as score=",
            spoken="load it in Python, by nacp.load(..., score=...)",
        )
    return as_score(score)


def stored_k(stored: Any) -> int:
    """Return the number of classes that a file states."""
    k = check_count("k", stored, 2)
    if k > _MOST_CLASSES:
        raise InputError("k", f"must be at most {_MOST_CLASSES:,}", found=f"{k:,}")
    return k


def stored_noise(stored: Any, k: int) -> Noise | None:
    """Return the noise model for k classes that a file describes."""
    noise = None if stored is None else rebuild("noise", NOISES, stored)
    if noise is not None:
        noise.check(k)
    return noise


def rebuild(name: str, table: dict[str, type[_Member]], stored: dict[str, Any]) -> _Member:
    """Return the member of a family that its `to_dict` described."""
    parameters = dict(stored)
    return table[check_choice(name, parameters.pop("name"), tuple(table))](**parameters)


def plain(value: Any) -> Any:
    """Return a value as JSON: the parameters of a member of a family, a word for infinity."""
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


def _within(most: float, name: str, value: Any) -> float:
    if 0 <= number(name, value) <= most:
        return float(value)
    raise InputError(name, f"must lie in [0, {most:g}]", found=repr(value))


def check_storable(classes: Sequence[Any] | None) -> None:
    """Refuse names of classes that JSON cannot hold."""
    odd = [name for name in classes or () if not _storable(name)]
    if odd:
        raise InputError("classes", "must be text or numbers to be saved", found=repr(odd[0]))


def _storable(name: Any) -> bool:
    return name is None or isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name))


def stored_basis(name: str, stored: Any) -> NoiseBasis | None:
    """Return the conditions of an estimate that a file states."""
    return None if stored is None else NoiseBasis(*(_text(name, stored[key]) for key in NoiseBasis._fields))


def stored_widths(name: str, stored: Any) -> Widths | None:
    """Return the widths of numbers that a file states."""
    if stored is None:
        return None
    least, given = (check_choice(name, each, ("float16", "float32", "float64")) for each in stored)
    return Widths(least, given)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise InputError(name, "must be text", found=repr(value))


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, list):
        return tuple(_text(name, each) for each in values)
    raise InputError(name, "must be a list of texts", found=repr(values))


def _optional(check: _Check) -> _Check:
    return lambda name, value: None if value is None else check(name, value)


_amount, _positive = partial(_within, math.inf), partial(check_count, least=1)
# The fields of a calibration that are checked one by one.
_CHECKS: dict[str, _Check] = {
    "alpha": check_fraction,
    "n": check_count,
    "correction": _amount,
    "native_threshold": number,
    "estimate": partial(_within, 1.0),
    "deviation": _optional(_amount),
    "obstacle": _optional(_text),
    "gap": _amount,
    "price_of_doubt": number,
    "note": _optional(_text),
    "random_state": check_count,
    "normalize": check_flag,
    "from_logits": check_flag,
    "checked": _optional(check_count),
    "planned": _optional(check_count),
    "look": _positive,
    "looks": _optional(_positive),
    "noise_basis": stored_basis,
    "several": _optional(check_count),
    "widths": stored_widths,
    "alphas": check_count,
    "warnings": _texts,
}
