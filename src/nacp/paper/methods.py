"""The methods that are compared, as choices of labels, noise model and guarantee."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from nacp.guarantees import GUARANTEES, Guarantee
from nacp.noise import Noise

PAPER_DELTA = 1e-3


@dataclass(frozen=True)
class Method:
    """One method: which labels it sees, whether it knows of the noise, and what it promises."""

    name: str
    sees_clean: bool
    noise_aware: bool
    guarantee: Guarantee

    @property
    def corrected(self) -> bool:
        """Whether the target is corrected for the noise."""
        return self.noise_aware and self.guarantee.promises_truth

    def correction(self, correction: float, estimate: float, alpha: float) -> float:
        """Return the correction; of a guarantee that promises without one, the excess of the estimate."""
        if correction or not self.guarantee.promises_truth:
            return correction
        return min(estimate, 1.0) - (1 - alpha)


def six_methods(k: int) -> list[Method]:
    """Return the methods of the paper's Tables 1 and 3, for k equally frequent classes."""
    return _methods([1 / k] * k)


def methods_under(noise: Noise, priors: ArrayLike | None = None) -> list[Method]:
    """Return the methods of the paper that apply under a noise model.

    `priors` are the frequencies of the true classes, for ACNL and CRCP; estimated from the noisy labels by
    default.
    """
    return [
        method
        for method in _methods(priors)
        if method.guarantee.applies(noise if method.noise_aware else None, "last") is None
    ]


def _methods(priors: ArrayLike | None) -> list[Method]:
    split, none, acnl, crcp, ours = (
        GUARANTEES[name].with_options(priors=priors, delta=PAPER_DELTA)
        for name in ("split", "none", "acnl", "crcp", "nacp")
    )
    return [
        Method("CP (oracle)", sees_clean=True, noise_aware=False, guarantee=split),
        Method("Noisy-CP", sees_clean=False, noise_aware=False, guarantee=split),
        aware(none, "NR-CP"),
        aware(acnl, "ACNL"),
        aware(crcp, "CRCP"),
        aware(ours, "NACP"),
    ]


def our_methods(delta: float = PAPER_DELTA) -> list[Method]:
    """Return the guarantees beyond the paper; "binomial" is for uniform noise, the others for any."""
    names = "pac", "binomial", "expected"
    return [aware(GUARANTEES[name].with_options(delta=delta)) for name in names]


def aware(guarantee: Guarantee, name: str | None = None) -> Method:
    """Return the method that sees noisy labels, knows the noise model, and has this guarantee."""
    return Method(name or guarantee.name, sees_clean=False, noise_aware=True, guarantee=guarantee)
