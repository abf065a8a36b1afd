"""Monitor: an alarm if the coverage of prediction sets has fallen, from noisy or checked labels."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from nacp._types import Floats
from nacp.calibration import Calibration
from nacp.checks import check_count, check_fraction
from nacp.errors import InputError
from nacp.guarantees.base import percent
from nacp.noise import UNSAID, NoiseLike, Unsaid
from nacp.stats.alarm import Alarm
from nacp.stream.arrivals import Follower, Labelling, refuse_groups
from nacp.wrapping import counted, wrapped

_FOUND = ("n", "checked", "alarm", "raised_at", "since", "wealth", "p_value", "coverage", "coverage_since")


class Monitor(Follower):
    """An alarm if the sets of a calibration no longer cover, from labels that come later.

    The alarm says that the clean coverage has fallen below 1 - alpha. Points must be passed in their order,
    in batches of any size. Memory use does not grow with their number. Proof: docs/guarantees.md, M1.

    Parameters
    ----------
    calibration : Calibration
        The calibration whose sets are watched.
    noise : float, array of shape (k, k), noise model or None, optional
        How later labels are wrong; by default as in the calibration. Required after a calibration from
        checked labels or with ``noise_groups``, unless all later labels are checked. ``None`` means that they
        are correct.
    false_alarm : float, default=0.01
        The largest probability that a false alarm is *ever* raised, however often you look.
    target : float, optional
        The coverage below which the alarm is raised, by default 1 - alpha. Pass a slightly smaller number if
        the promise is on average over calibration sets ("expected", "split", "none").

    Attributes
    ----------
    n, checked : int
        The number of points that were used, and of those whose label was checked.
    alarm : bool
        Whether coverage has fallen. It stays true; a new calibration needs a new monitor.
    raised_at, since : int or None
        The number of points after which the alarm was raised; and the number after which coverage fell, an
        estimate that is made when the alarm is raised.
    wealth : float
        The wealth of a gambler who starts with 1 and bets that coverage has fallen; fixed at the alarm.
    p_value : float
        1 divided by the highest wealth so far; valid at any time.
    coverage, coverage_since : float or None
        Estimates of the clean coverage of all points, and of those after `since`. The latter is biased
        downwards, as `since` is chosen so that the coverage after it is low.

    See Also
    --------
    OnlineCalibrator : Thresholds that follow the drift.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=8000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=10, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], noisy[:2000], noise=0.2)
    >>> monitor = nacp.Monitor(cal)
    >>> monitor.update(probs[2000:5000], noisy[2000:5000])
    >>> monitor.alarm
    False
    >>> labels[5000::4] = (labels[5000::4] + 1) % 10  # from here on, every fourth object is of a new kind
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=10, random_state=1)
    >>> monitor.update(probs[5000:], noisy[5000:])
    >>> print(monitor)
    Alarm after 3,1... points, of 6,000 so far: coverage has fallen below 90%, since
    about point ... Estimated coverage since then 0.7...
    Promised: as long as coverage is at least 90%, the probability that an alarm is
    ever raised is at most 1%. Assumed: uniform label noise with rate 0.2,
    independent of the input given the true class, in all labels to come.
    """

    _format, _undecided = "nacp.monitor", 1.0

    def __init__(
        self,
        calibration: Calibration,
        *,
        noise: NoiseLike | Unsaid = UNSAID,
        false_alarm: float = 0.01,
        target: float | None = None,
    ) -> None:
        refuse_groups("calibration", calibration)
        if not isinstance(calibration, Calibration):
            raise InputError("calibration", "must be what nacp.calibrate returned", found=repr(calibration))
        if not np.isfinite(calibration.native_threshold):
            problem = "has an infinite threshold: its sets hold all classes, so their coverage cannot fall"
            raise InputError("calibration", problem)
        labelling = Labelling.of(noise, calibration.k, calibration.classes, calibration)
        self._follow(calibration, labelling)
        self.false_alarm = check_fraction("false_alarm", false_alarm)
        self.target = check_fraction("target", 1 - calibration.alpha if target is None else target)
        self._show(Alarm(self.target, self._shares.range[1], self.false_alarm))

    def _use(self, shares: Floats) -> None:
        alarm = copy(self._alarm)  # so that an interruption leaves the state as it was
        alarm.play(shares)
        self._show(alarm)

    def _show(self, alarm: Alarm) -> None:
        """Set the attributes from the state of the alarm."""
        self._alarm, self.n, self.wealth, self.p_value = alarm, alarm.n, alarm.wealth, 1 / alarm.highest
        self.alarm, self.raised_at, self.since = alarm.at is not None, alarm.at, alarm.since
        self.coverage, self.coverage_since = _cut(alarm.total, alarm.n), None
        if alarm.since is not None:
            self.coverage_since = _cut(alarm.total - alarm.before, alarm.n - alarm.since)

    @property
    def promise(self) -> str:
        """What is guaranteed, in one sentence."""
        most = self.false_alarm + (0.0 if self.noise is None else self.noise.doubt.missing)
        basis = self._labelling.basis
        caveat = f", {basis.caveat}" if basis is not None and basis.caveat else ""
        return (
            f"as long as coverage is at least {percent(self.target)}, the probability that an alarm is ever "
            f"raised is at most {percent(min(most, 1.0))}{caveat}"
        )

    @property
    def assumptions(self) -> str:
        """What the promise rests on, in words."""
        said = []
        if self.noise is not None and (self.n > self.checked or not self.n):
            independent = "" if self.noise.doubt.radius else ", independent of the input given the true class"
            said.append(f"{self.noise.describe(self.calibration.k)}{independent}, in all labels to come")
            if self._labelling.basis is not None:
                said.append(self._labelling.basis.assumption)
        if self.checked:
            said.append(f"the {self.checked:,} checked points were picked at random and checked rightly")
        return "; ".join(said) or "the labels are right"

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, by their names."""
        return {name: getattr(self, name) for name in (*_FOUND, "target", "false_alarm")}

    def _state(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("false_alarm", "target", "checked")}
        return kept | {"state": self._alarm.to_dict()}

    @classmethod
    def _of_state(cls, calibration: Calibration, noise: Any, state: dict[str, Any]) -> Monitor:
        found = cls(calibration, noise=noise, false_alarm=state["false_alarm"], target=state["target"])
        found.checked = check_count("checked", state["checked"])
        found._alarm.restore(state["state"])
        found._show(found._alarm)
        return found

    def __repr__(self) -> str:
        return f"Monitor(n={self.n}, alarm={self.alarm}, p_value={self.p_value:.3g})"

    def __str__(self) -> str:
        points, target = counted(self.n, "point"), percent(self.target)
        if self.since is None:
            seen = "" if self.coverage is None else f" Estimated coverage {self.coverage:.4f}."
            none = f"no proof that coverage is below {target}"
            said = f"No alarm after {points} (p = {self.p_value:.2g}): {none}.{seen}"
        else:
            now = "" if self.n == self.raised_at else f", of {self.n:,} so far"
            said = (
                f"Alarm after {self.raised_at:,} points{now}: coverage has fallen below {target}, since "
                f"about point {self.since:,}. Estimated coverage since then {self.coverage_since:.4f}."
            )
        return wrapped(f"{said}\nPromised: {self.promise}. Assumed: {self.assumptions}.")


def _cut(total: float, number: int) -> float | None:
    return min(max(total / number, 0.0), 1.0) if number else None
