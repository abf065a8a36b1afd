"""The noise and the calibrations that commands are given: as numbers, as matrices, and as files."""

from contextlib import suppress
from pathlib import Path

from nacp._types import Array
from nacp.calibration import Calibration
from nacp.cli.formats.common import ARRAYS, TEXTS, are_numbers, checked, few, kind, split_key
from nacp.cli.inputs import read_matrix
from nacp.errors import InputError
from nacp.estimation import NoiseEstimate
from nacp.estimation import load as load_estimate
from nacp.estimation.annotators import ASSUMED
from nacp.files import load as load_calibration
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.noise import UNSAID, NoiseLike, UniformNoise, Unsaid


def read_noise(text: str, interval: tuple[float, float] | None = None, confidence: float = 1.0) -> NoiseLike:
    """Read a noise rate, a (k, k) matrix from a file (rows are the true class), what ``nacp noise`` wrote, or
    "none": clean labels. A rate may have an interval.
    """
    if not text:
        raise InputError(
            "noise",
            'must be given: a rate, a file of a matrix or "none" for labels that are right; or, where some '
            "labels were checked, --clean FILE",
        )
    noise = _read_noise(text)
    if interval is None and confidence == 1:
        return noise
    if not isinstance(noise, float):
        raise InputError("noise_interval", f"is for a noise rate; --noise is {text}")
    return UniformNoise(noise, interval, confidence)


def read_noise_beside(
    clean: str | None,
    text: str,
    interval: tuple[float, float] | None,
    confidence: float,
    other: float | None = None,
    labels: str = "",
) -> NoiseLike | Unsaid:
    """Read the noise as `read_noise` does; where labels were checked it may be left out.

    So it may where `other`, the rate of wrong labels, is given: `with_other` then makes the noise of it.
    It must be that of the `labels`.
    """
    if other is not None:
        if text or interval is not None:
            name = "--noise" if text else "--noise-interval"
            raise InputError("noise_other", f"is a rate by itself, and {name} is one of another kind")
        return UNSAID
    if text or clean is None:
        noise = read_noise(text, interval, confidence)
        if (
            isinstance(noise, NoiseEstimate)
            and ASSUMED in noise.assumption
            and split_key(labels)[1] == "vote"
        ):
            raise InputError(
                labels,
                f"holds votes, and {text} is the noise of single labels, which are wrong more often",
                remedy=f"give {labels.removesuffix('vote')}label, or --clean and no --noise",
            )
        return noise
    if interval is not None or confidence != 1:
        name = "noise_confidence" if interval is None else "noise_interval"
        raise InputError(name, "is of a noise rate, and there is no --noise", remedy="give --noise, too")
    return UNSAID


def with_other(known: NoiseLike | Unsaid, other: float | None, k: int) -> NoiseLike | Unsaid:
    """Return the noise; if a rate of wrong labels was given, the uniform noise that has it."""
    if other is None:
        return known
    try:
        return UniformNoise.other(other, k)
    except InputError as error:
        raise error.about("noise_other") from None


def _read_noise(text: str) -> float | Array | NoiseEstimate | None:
    if text.lower() == "none":
        return None
    with suppress(ValueError):
        return float(text)
    if text.endswith("%") and are_numbers([text[:-1]]):
        share = f"{float(text[:-1]) / 100:g}"
        raise InputError("noise", "must be a rate such as 0.2", found=repr(text), remedy=f"write {share}")
    if text.endswith(".json"):
        return load_estimate(checked(Path(text)))
    if kind(split_key(text)[0]) not in (*ARRAYS, *TEXTS):
        raise InputError(
            "noise",
            f"is {text!r}; it must be a rate such as 0.2, a file of a (k, k) matrix (.npy, .npz, "
            ".safetensors, .csv or .tsv; rows are the true class), a .json file that nacp noise wrote, or "
            '"none" for labels that are right',
        )
    matrix, header = read_matrix(text, "noise")
    if header is not None:
        raise InputError(
            text,
            f"has a header, {few(header, 3)}",
            remedy="put its rows and columns in the order of the classes, and leave the header out",
        )
    return matrix


def read_calibration(path: Path, *others: str) -> Calibration | GroupedCalibration:
    """Read what ``nacp calibrate`` wrote, or say that it looks swapped with one of the other arguments."""
    swapped = next((name for name in others if name.endswith(".json")), None)
    if swapped is not None and path.suffix != ".json":
        raise InputError(
            "the arguments", f"look swapped: the calibration comes first, and that seems to be {swapped}"
        )
    if path.is_dir():
        raise InputError(str(path), "is a folder", remedy="give the file that nacp calibrate wrote")
    found: Calibration | GroupedCalibration = load_calibration(path)
    return found
