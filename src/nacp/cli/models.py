"""The noise models and calibrations that commands are given: as numbers, as matrices, and as files."""

from contextlib import suppress
from pathlib import Path

from nacp._types import Array
from nacp.calibration import Calibration
from nacp.cli.formats.base import ARRAYS, TEXTS, are_numbers, checked, few, kind, split_key
from nacp.cli.inputs import read_matrix
from nacp.errors import InputError
from nacp.estimation import NoiseEstimate
from nacp.estimation import load as load_estimate
from nacp.estimation.annotators import ASSUMED
from nacp.files import load as load_calibration
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.noise import UNSAID, NoiseLike, UniformNoise, Unsaid


def read_noise(
    text: str,
    k: int,
    other: float | None = None,
    interval: tuple[float, float] | None = None,
    confidence: float = 1.0,
    *,
    optional: bool = False,
    labels: str = "",
) -> NoiseLike | Unsaid:
    """Read the noise model for k classes from the options of a command.

    The text is a rate, a file of a (k, k) matrix (rows are the true class), what ``nacp noise`` wrote, or
    "none": clean labels. A rate may have an interval. Instead `other` may be the rate of wrong labels. The
    text may be empty if noise is `optional`, as where labels were checked. The model must be that of the
    `labels`.
    """
    if other is not None:
        if text or interval is not None:
            name = "--noise" if text else "--noise-interval"
            raise InputError("noise_other", f"is a rate by itself, and {name} is one of another kind")
        try:
            return UniformNoise.other(other, k)
        except InputError as error:
            raise error.about("noise_other") from None
    uncertain = interval is not None or confidence != 1
    if not text:
        if not optional:
            raise InputError(
                "noise",
                'must be given: a rate, a file of a matrix or "none" for labels that are right; or, where '
                "some labels were checked, --clean FILE",
            )
        if uncertain:
            name = "noise_confidence" if interval is None else "noise_interval"
            raise InputError(name, "is of a noise rate, and there is no --noise", remedy="give --noise, too")
        return UNSAID
    noise = _read_noise(text)
    if uncertain:
        if not isinstance(noise, float):
            raise InputError("noise_interval", f"is for a noise rate; --noise is {text}")
        return UniformNoise(noise, interval, confidence)
    of_single_labels = isinstance(noise, NoiseEstimate) and ASSUMED in noise.assumption
    if of_single_labels and split_key(labels)[1] == "vote":
        raise InputError(
            labels,
            f"holds votes, and {text} is the noise of single labels, which are wrong more often",
            remedy=f"give {labels.removesuffix('vote')}label, or --clean and no --noise",
        )
    return noise


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
    matrix, header, _ = read_matrix(text, "noise")
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
