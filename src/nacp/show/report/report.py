"""make_report(): one HTML file about a calibration."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from numpy.typing import ArrayLike

from nacp.audit.plan import AuditPlan
from nacp.calibrate import calibrate
from nacp.calibration import Calibration, NoValidThresholdWarning
from nacp.checks import check_fraction
from nacp.coverage.contradiction import NoiseModelWarning
from nacp.coverage.curve import Rule
from nacp.errors import InputError
from nacp.files import write_text
from nacp.guarantees import Guarantee
from nacp.noise import UNSAID, NoiseLike, Unsaid
from nacp.show.report.contents import Contents, gather
from nacp.show.report.groups import check_test_groups, groups_of
from nacp.show.report.page import render


@dataclass(frozen=True)
class Report:
    """An HTML page; made by `make_report`. A notebook shows it as it is.

    Attributes
    ----------
    html : str
        The page, with all that it needs.
    contents : Contents
        The numbers that it shows.
    """

    html: str = field(repr=False)
    contents: Contents = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : path
            The file; replaced if it exists.
        """
        write_text(path, self.html)

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{page}" style="width:100%;height:46rem;border:0" title="nacp report"></iframe>'
        )


def make_report(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    calibration: Calibration | None = None,
    noise: NoiseLike | Unsaid = UNSAID,
    clean: Any = None,
    audit: AuditPlan | None = None,
    alpha: float = 0.1,
    score: Any = "hps",
    guarantee: str | Guarantee | None = None,
    delta: float | None = None,
    crossing: Rule = "last",
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
    random_state: int | None = None,
    test_probs: ArrayLike | None = None,
    test_labels: ArrayLike | None = None,
    samples: Sequence[int] | None = None,
    descriptions: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    groups: Any = None,
    by: Literal["class"] | None = None,
    simultaneous: bool = False,
    small: Literal["error", "all", "merge"] = "error",
    test_groups: Any = None,
    title: str = "Prediction sets from noisy labels",
    say: Callable[[str], None] = lambda what: None,
) -> Report:
    """Make a page that shows the promise and the sets of a calibration, and how they depend on alpha.

    It is one small HTML file, which opens without a network and prints.

    Parameters
    ----------
    probs, labels, noise, alpha, score, guarantee, delta, crossing, classes, normalize, from_logits
        As in `calibrate`. A slider goes from 0.01 to 0.3 and has the given alpha on it.
    calibration : Calibration, optional
        The calibration to report on, such as one from `load`, with its points. Its options are used; only
        `clean`, and `audit` or `noise` beside it, must be given again if it was made with checked labels.
    clean, audit : optional
        Checked labels, and their plan, as in `calibrate`. All calibrations then come from these, and assume
        nothing about the noise; a `noise` that is given is judged by them.
    test_probs, test_labels : arrays of shape (m, k) and (m,), optional
        Other points, whose sets are then shown, and their true labels, by which coverage is then measured.
    samples : sequence of int, optional
        The rows whose sets are shown, of the test points if there are some; by default eight.
    descriptions, ids : sequences of str, optional
        A text to show with each of these points, and what to call each instead of its row number.
    groups, by, simultaneous, small, test_groups
        As in `calibrate`: the page then also shows a threshold for each group. `test_groups` has the group of
        each test point, where groups are of rows.
    title : str
        Of the page.
    say : callable, optional
        Called with a few words before each step of the work.

    Returns
    -------
    Report

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=1000)
    >>> report = nacp.make_report(probs, nacp.UniformNoise(0.2).sample(labels, 10, 0), noise=0.2)
    >>> report.html[:15]
    '<!doctype html>'
    """
    check_fraction("alpha", alpha)
    options = {"score": score, "guarantee": guarantee, "delta": delta, "crossing": crossing}
    options |= {"normalize": normalize, "from_logits": from_logits}
    options |= {"classes": classes, "random_state": random_state}
    if calibration is not None:
        beside = options | {"alpha": alpha, "groups": groups, "by": by}
        noise = _check_saved(calibration, clean, noise, beside)
        alpha = calibration.alpha
        options = {name: getattr(calibration, name) for name in options if name != "delta"}
    given = options | {"probs": probs, "labels": labels, "noise": noise, "clean": clean, "audit": audit}
    grouped = None
    with warnings.catch_warnings():  # the page says these
        warnings.simplefilter("ignore", NoiseModelWarning)
        warnings.simplefilter("ignore", NoValidThresholdWarning)
        grouping = {"groups": groups, "by": by, "simultaneous": simultaneous, "small": small}
        if groups is not None or by is not None or simultaneous or small != "error":
            say("calibrating each group")
            grouped = calibrate(**given, alpha=alpha, **grouping)  # refuses the last two without groups
        check_test_groups(grouped, test_probs, test_groups)
        tests = test_probs, test_labels
        contents = gather(given, alpha, calibration, *tests, samples, descriptions, ids, say)
        if grouped is not None:
            found = groups_of(grouped, contents.calibration, *tests, test_groups)
            contents = replace(contents, groups=found)
    say("drawing")
    return Report(render(contents, title), contents)


def _check_saved(
    cal: Any, clean: Any, noise: NoiseLike | Unsaid, beside: dict[str, Any]
) -> NoiseLike | Unsaid:
    """Return the noise model of a saved calibration; refuse options that it has already."""
    if not isinstance(cal, Calibration):
        remedy = "leave it out, and pass the options that it was made with"
        raise InputError(
            "calibration", "must have one threshold for all points", found=repr(type(cal)), remedy=remedy
        )
    defaults = make_report.__kwdefaults__ or {}
    stated = [name for name, value in beside.items() if value is not defaults[name]]
    if cal.checked is None:
        stated += ["noise"] * (not isinstance(noise, Unsaid)) + ["clean"] * (clean is not None)
    elif clean is None:
        raise InputError("clean", "is missing: the calibration was made with checked labels")
    if stated:
        raise InputError(stated[0], "is that of the calibration", remedy="leave it out")
    return noise if cal.checked is not None else cal.noise
