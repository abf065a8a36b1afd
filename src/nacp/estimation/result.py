"""The result of every estimator: a noise model, its uncertainty, and the assumptions it rests on."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from nacp.checks import check_confidence, check_count, check_flag
from nacp.errors import InputError
from nacp.files import check_storable, number, read_document, reading, rebuild, stored_k, write_document
from nacp.noise import NOISES, Noise, NoiseBasis
from nacp.points import check_classes
from nacp.wrapping import counted, on_one_line, wrapped

_FORMAT, _VERSION = "nacp.noise", 1
_LARGE_SHIFT = 0.1  # an uncertainty of the coverage by which sets hold all labels at the default alpha


@dataclass(frozen=True, kw_only=True)
class NoiseEstimate:
    """A noise model with its uncertainty; ``calibrate(noise=estimate)`` takes it as it is.

    Attributes
    ----------
    noise, k : Noise and int
        The model, with its interval of rates or its radius where there is one, for k classes.
    rate, wrong : float
        The noise rate epsilon of a uniform or group model, else the same as `wrong`; and the share of wrong
        labels.
    interval : tuple of two floats, or None
        An interval that contains the true rate with probability `confidence`, 1 if the rate is known exactly.
        None if the method gives none. If it is `approximate`, this holds approximately only.
    n : int
        The number of items that it comes from; 0 if it comes from none.
    method, assumption, why : str
        How it was estimated, what must be true for it to hold, and why this model was chosen.
    classes : tuple or None
        The class names, if they were given. A calibration whose classes have these names in another order
        reorders the model; other names are refused.

    Examples
    --------
    >>> import nacp
    >>> print(nacp.noise_from_audit([0] * 10 + [1] * 90, [0] * 8 + [1] * 92, k=2, model="uniform"))
    Uniform label noise with rate 0.0048... to 0.14... (95% sure); the best single value is 0.04.
    2% of labels are wrong. From 100 items, 2 classes.
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
    classes: tuple[Any, ...] | None = None

    @property
    def basis(self) -> NoiseBasis:
        """The conditions of a promise that is made with this estimate."""
        assumed = self.assumption
        if self.n and self.confidence < 1 and not self.noise.is_uniform:
            assumed += "; the noise was estimated from other points than the calibration points"
        if self.approximate:
            return NoiseBasis(assumed, "if the interval of the noise, which is approximate, holds")
        if self.interval is None:
            return NoiseBasis(assumed, "if the noise is exactly as estimated (the method gives no interval)")
        return NoiseBasis(assumed, "")

    def model_for(self, k: int, classes: Sequence[Any] | None = None) -> Noise:
        """Return the model for k classes, in the order of `classes` if both have names."""
        if k != self.k:
            remedy = f"estimate it for {k:,}, or state the model itself, such as its rate"
            raise InputError("noise", f"was estimated for {self.k:,} classes, not for {k:,}", remedy=remedy)
        if self.classes is None or classes is None:
            return self.noise
        place = {str(name): i for i, name in enumerate(self.classes)}
        missing = [name for name in classes if str(name) not in place]
        if missing:
            more = set(place) - {str(name) for name in classes}
            raise InputError(
                "noise",
                f"was estimated for other classes: it has none named {missing[0]!r}",
                found=f"{len(more):,} of its names are not in classes, such as {min(more)!r}",
                remedy="estimate it with the same names",
            )
        order = np.array([place[str(name)] for name in classes])
        return self.noise if (np.diff(order) == 1).all() else self.noise.permuted(order)

    def __str__(self) -> str:
        sure = f"{100 * self.confidence:.4g}% sure"
        said = self.noise.describe(self.k)
        if self.approximate:
            said = said.replace(f"({sure})", f"(approximate: {sure} if what is assumed holds)")
        if self.noise.has_rate and self.interval is not None and self.interval[0] < self.interval[1]:
            said += f"; the best single value is {self.rate:.4g}"
        said += f". {100 * self.wrong:.3g}% of labels are wrong"
        if self.rate == self.wrong and self.interval is not None and self.confidence < 1:
            low, high = (f"{100 * end:.3g}%" for end in self.interval)
            said += f" ({low} to {high}, {sure})"
        source = f"From {counted(self.n, 'item')}, " if self.n else ""
        advice = ""
        if self.approximate:
            advice = (
                " If the true rate lies above the interval, sets are larger than necessary, which is safe. "
                "If it lies below, coverage is too low. In doubt state a smaller rate, or check labels."
            )
        elif self.noise.doubt.shift(self.noise.inverse(self.k)) >= _LARGE_SHIFT:
            advice = (
                " With so much uncertainty, calibrate(noise=...) returns sets of nearly all labels. Use the "
                "checked labels themselves instead: calibrate(clean=...), nacp calibrate --clean."
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
        """Write the estimate to a JSON file, which `nacp.estimation.load` reads back."""
        write_document(path, {"format": _FORMAT, "version": _VERSION} | self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        check_storable(self.classes)
        return values | {"noise": self.noise.to_dict()}


def load(path: str | os.PathLike[str]) -> NoiseEstimate:
    """Read an estimate from the JSON file that `nacp.NoiseEstimate.save` wrote. Nothing in it is executed.

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
        values = {field.name: document[field.name] for field in fields(NoiseEstimate)}
        values["k"] = stored_k(values["k"])
        values["noise"] = rebuild("noise", NOISES, values["noise"])
        values["noise"].check(values["k"])
        if values["interval"] is not None:
            low, high = values["interval"]
            values["interval"] = number("interval", low), number("interval", high)
        for name in ("rate", "wrong"):
            if not 0 <= number(name, values[name]) <= 1:
                raise InputError(name, "must lie in [0, 1]", found=repr(values[name]))
        check_confidence(values["confidence"])
        check_count("n", values["n"])
        check_flag("approximate", values["approximate"])
        values |= {name: str(values[name]) for name in ("method", "assumption", "why")}
        values["classes"] = check_classes(values["classes"], values["k"])
        return NoiseEstimate(**values)
