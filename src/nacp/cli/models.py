"""The noise models that commands are given: as numbers, as matrices, and as files."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nacp._types import Array
from nacp.checks import rate_meant
from nacp.cli.formats import ARRAYS, TEXTS, checked, few, kind, split_key
from nacp.cli.inputs import read_matrix
from nacp.errors import InputError
from nacp.estimation import NoiseEstimate
from nacp.estimation import load as load_estimate
from nacp.estimation.annotators import ASSUMED
from nacp.noise import UNSAID, NoiseLike, UniformNoise, Unsaid


@dataclass(frozen=True, kw_only=True)
class NoiseOptions:
    """The options that give the noise model."""

    noise: Annotated[
        str,
        typer.Option(
            help="The rate of uniform label noise: of labels that were replaced by a random one, perhaps the "
            "same (see --noise-other). Or a file of a (k, k) matrix (rows: the true class), what nacp noise "
            'wrote (.json), or "none".',
            show_default=False,
        ),
    ] = ""
    noise_other: Annotated[
        float | None,
        typer.Option(
            help="Instead of --noise: the rate of wrong labels, where every other class is equally likely.",
            metavar="RATE",
            show_default=False,
        ),
    ] = None
    noise_interval: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Where the rate lies, if it is not known exactly.", metavar="LOW HIGH"),
    ] = None
    noise_confidence: Annotated[float, typer.Option(help="The probability that it lies there.")] = 1.0

    def read_noise(
        self, k: int, classes: Sequence[Any] | None = None, *, optional: bool = False, labels: str = ""
    ) -> NoiseLike | Unsaid:
        """Read the noise model for k classes; a matrix with names is put in the order of the classes.

        It need not be given if it is `optional`, as where labels were checked. It must be a model of the
        `labels` in that file.
        """
        uncertain = self.noise_interval is not None or self.noise_confidence != 1
        if self.noise_other is not None:
            if self.noise or uncertain:
                raise InputError("noise_other", "is a rate by itself", remedy="leave the other options out")
            try:
                return UniformNoise.other(self.noise_other, k)
            except InputError as error:
                raise error.about("noise_other") from None
        if not self.noise and not optional:
            problem = 'must be given: a rate, a file of a matrix or "none" for labels that are right'
            raise InputError("noise", problem, remedy="or, where some labels were checked, --clean FILE")
        noise = _read_noise(self.noise, classes) if self.noise else UNSAID
        if uncertain:
            if not isinstance(noise, float):
                name = "noise_confidence" if self.noise_interval is None else "noise_interval"
                raise InputError(name, "is of a noise rate", remedy="give a rate as --noise")
            return UniformNoise(noise, self.noise_interval, self.noise_confidence)
        of_single_labels = isinstance(noise, NoiseEstimate) and ASSUMED in noise.assumption
        if of_single_labels and split_key(labels)[1] == "vote":
            problem = f"holds votes, and {self.noise} is the noise of single labels, which err more often"
            remedy = f"give {labels.removesuffix('vote')}label, or --clean and no --noise"
            raise InputError(labels, problem, remedy=remedy)
        return noise


def _read_noise(text: str, classes: Sequence[Any] | None) -> float | Array | NoiseEstimate | None:
    """Read a noise rate, a file of a matrix, an estimate, or "none"."""
    if text.lower() == "none":
        return None
    with suppress(ValueError):
        return float(text)
    if text.endswith(".json"):
        return load_estimate(checked(Path(text)))
    if kind(split_key(text)[0]) not in (*ARRAYS, *TEXTS):
        problem = (
            'must be a rate such as 0.2, "none" for labels that are right, what nacp noise wrote (.json), '
            "or a file of a (k, k) matrix (.npy, .npz, .safetensors, .csv or .tsv; rows are the true class)"
        )
        raise InputError("noise", problem, found=text, remedy=rate_meant(text))
    matrix, header, rows = read_matrix(text, "noise")
    if header is not None:
        names = [str(each) for each in classes or ()]
        if sorted(header) != sorted(names):
            remedy = "give it the names of the classes, or leave the header out" if names else "leave it out"
            problem = f"has a header, {few(header, 3)}, whose names are not those of the classes"
            raise InputError(text, problem, found=few(names, 3) or "no names", remedy=remedy)
        if rows is None or sorted(rows) != sorted(names):
            problem = "has a header, so its rows must have the same names, in a first column called id"
            raise InputError(text, problem)
        matrix = matrix[np.ix_([rows.index(each) for each in names], [header.index(each) for each in names])]
    if matrix.dtype.kind not in "fiub":
        raise InputError(text, "must hold a matrix of numbers", found=f"the type {matrix.dtype}")
    return matrix
