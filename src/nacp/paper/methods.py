"""The methods that are compared, as choices of labels, noise model and guarantee."""

from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from nacp.guarantees import Guarantee, as_guarantee
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


def six_methods(k: int, delta: float = PAPER_DELTA) -> list[Method]:
    """Return the methods of the paper's Tables 1 and 3, for k equally frequent classes; delta is of NACP."""
    return _methods([1 / k] * k, delta)


def methods_under(noise: Noise, priors: ArrayLike | None = None) -> list[Method]:
    """Return the methods of the paper that apply under a noise model.

    `priors` are the frequencies of the true classes, for ACNL and CRCP; estimated from the noisy labels by
    default.
    """
    return [
        method
        for method in _methods(priors, PAPER_DELTA)
        if method.guarantee.applies(noise if method.noise_aware else None, "last") is None
    ]


def _methods(priors: ArrayLike | None, delta: float) -> list[Method]:
    acnl, crcp = (
        replace(as_guarantee(name), priors=priors)  # type: ignore[type-var]  # dataclasses
        for name in ("acnl", "crcp")
    )
    return [
        Method("CP (oracle)", sees_clean=True, noise_aware=False, guarantee=as_guarantee("split")),
        Method("Noisy-CP", sees_clean=False, noise_aware=False, guarantee=as_guarantee("split")),
        aware(as_guarantee("none"), "NR-CP"),
        aware(acnl, "ACNL"),
        aware(crcp, "CRCP"),
        aware(as_guarantee("nacp", delta), "NACP"),
    ]


def our_methods(delta: float = PAPER_DELTA) -> list[Method]:
    """Return the guarantees beyond the paper; "binomial" is for uniform noise, the others for any."""
    return [
        aware(as_guarantee("pac", delta)),
        aware(as_guarantee("binomial", delta)),
        aware(as_guarantee("expected")),
    ]


def aware(guarantee: Guarantee, name: str | None = None) -> Method:
    """Return the method that sees noisy labels, knows the noise model, and has this guarantee."""
    return Method(name or guarantee.name, sees_clean=False, noise_aware=True, guarantee=guarantee)
