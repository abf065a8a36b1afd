"""The result of every estimator: a noise model, its uncertainty, and the assumptions it rests on."""

import os
from dataclasses import dataclass, fields
from typing import Any

from nacp.checks import check_confidence, check_count, check_flag
from nacp.errors import InputError
from nacp.files import number, read_document, reading, rebuild, write_document
from nacp.noise import NOISES, Noise, NoiseBasis
from nacp.wrapping import counted, on_one_line, wrapped

_FORMAT, _VERSION = "nacp.noise", 1


@dataclass(frozen=True, kw_only=True)
class NoiseEstimate:
    """A noise model with its uncertainty; ``calibrate(noise=estimate)`` takes it as it is.

    Attributes
    ----------
    noise : Noise
        The model, with its interval of rates or its radius where there is one.
    rate : float
        The noise rate epsilon of a uniform or group model, by which a label is replaced by any, the true one
        too. Of a matrix the share of wrong labels.
    interval : tuple of two floats, or None
        An interval that contains the true rate with probability `confidence`. None if the method gives none.
    confidence : float
        That probability; 1 if the rate is known exactly.
    wrong : float
        The share of labels that are wrong.
    n : int
        The number of items that it comes from; 0 if it comes from none.
    k : int
        The number of classes.
    method : str
        How it was estimated.
    assumption : str
        What must be true for it to hold, in a sentence.
    why : str
        Why this model was chosen, in a sentence.
    approximate : bool
        Whether the interval holds approximately only.

    Examples
    --------
    >>> import nacp
    >>> print(nacp.noise_from_audit([0] * 10 + [1] * 90, [0] * 8 + [1] * 92, k=2, model="uniform"))
    Uniform label noise with rate 0.0048... to 0.14... (95% sure); the best single value is 0.04, that is
    2% of labels wrong. From 100 items, 2 classes.
    ...
    """

    noise: Noise
    rate: float
    interval: tuple[float, float] | None = None
    confidence: float = 1.0
    wrong: float
    n: int
    k: int
    method: str
    assumption: str
    why: str
    approximate: bool = False

    @property
    def basis(self) -> NoiseBasis:
        """The conditions of a promise that is made with this estimate."""
        assumed = self.assumption
        if self.n and self.confidence < 1:
            assumed += (
                "; the noise was estimated from other points than these, or from the same ones, for which "
                "not every guarantee is proved"
            )
        if self.approximate:
            return NoiseBasis(assumed, "if the interval of the noise, which is approximate, holds")
        if self.interval is None:
            return NoiseBasis(assumed, "if the noise is exactly as estimated, which no interval vouches for")
        return NoiseBasis(assumed, "")

    def __str__(self) -> str:
        sure = f"{100 * self.confidence:.4g}% sure"
        said = self.noise.describe(self.k)
        if self.approximate:
            said = said.replace(f"({sure})", f"(approximate: {sure} if what is assumed holds)")
        if self.interval is not None and self.interval[0] < self.interval[1]:
            said += f"; the best single value is {self.rate:.4g}"
        if self.rate != self.wrong:
            said += f", that is {100 * self.wrong:.3g}% of labels wrong"
        else:
            said += f". {100 * self.wrong:.3g}% of labels are wrong"
            if self.interval is not None and self.confidence < 1:
                low, high = (f"{100 * end:.3g}%" for end in self.interval)
                said += f" ({low} to {high}, {sure})"
        source = f"From {counted(self.n, 'item')}, " if self.n else ""
        advice = ""
        if self.approximate:
            advice = (
                " The true rate may lie outside of the interval. Above it, that is safe: sets are larger "
                "than need be. Below it, it is not: coverage is too low. In doubt state a smaller rate, or "
                "check some labels."
            )
        elif self.noise.has_rate and (self.confidence < 1 or self.interval is None):
            advice = " In doubt state the smaller rate: overstating it gives too little coverage."
        return wrapped(
            f"{said[0].upper()}{said[1:]}. {source}{self.k:,} classes.\nMethod: {self.method}.\n"
            f"Assumed: {self.assumption}.\nModel: {self.why}.{advice}"
        )

    def _repr_html_(self) -> str:
        from nacp.show.html import card, told

        return card("NoiseEstimate", told(on_one_line(self)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimate to a JSON file; `nacp.estimation.load` reads it back.

        Parameters
        ----------
        path : path
            The file; replaced if it exists.
        """
        write_document(path, {"format": _FORMAT, "version": _VERSION} | self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as plain values, for a file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"noise": self.noise.to_dict()}


def load(path: str | os.PathLike[str]) -> NoiseEstimate:
    """Read an estimate that `nacp.NoiseEstimate.save` wrote.

    Parameters
    ----------
    path : path
        A JSON file. Nothing in it is executed.

    Returns
    -------
    NoiseEstimate

    Examples
    --------
    >>> import os, tempfile
    >>> import nacp
    >>> estimate = nacp.noise_from_privacy(8.0, k=1000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     estimate.save(os.path.join(folder, "noise.json"))
    ...     nacp.estimation.load(os.path.join(folder, "noise.json")) == estimate
    True
    """
    document = read_document(path, "noise file", (_FORMAT,), _VERSION)
    with reading(path):
        return _from_document(document)


def _from_document(document: dict[str, Any]) -> NoiseEstimate:
    interval = document["interval"]
    if interval is not None:
        if not isinstance(interval, list) or len(interval) != 2:
            raise InputError("interval", "must be two numbers or null", found=repr(interval))
        interval = number("interval", interval[0]), number("interval", interval[1])
    k = check_count("k", document["k"], 2)
    noise = rebuild("noise", NOISES, document["noise"])
    noise.check(k)
    return NoiseEstimate(
        noise=noise,
        rate=_share("rate", document["rate"]),
        interval=interval,
        confidence=check_confidence(document["confidence"]),
        wrong=_share("wrong", document["wrong"]),
        n=check_count("n", document["n"]),
        k=k,
        method=str(document["method"]),
        assumption=str(document["assumption"]),
        why=str(document["why"]),
        approximate=check_flag("approximate", document["approximate"]),
    )


def _share(name: str, value: Any) -> float:
    """Check a share, which may be 1: all labels of an audit may be wrong."""
    found = number(name, value)
    if not 0 <= found <= 1:
        raise InputError(name, "must lie in [0, 1]", found=repr(value))
    return found
