"""The charts of a report, as HTML and SVG that fit any width, on screen and on paper, without a script.

Curves are drawn in a square of 1000 x 1000 that is stretched to the plot; ticks, marks and their words are
placed by percentages, so that they are not stretched. The page's script moves what the slider moves, by its
``data-mark``, and shows the values under the pointer, which stand in the page's data under the plot's name.
"""

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nacp._types import Floats
from nacp.advice.sensitivity import Sensitivity
from nacp.coverage.curve import CoverageCurve
from nacp.show.axes import Axis, linear_axis, log_axis, threshold_axis
from nacp.show.report.contents import Contents, Step
from nacp.show.style import CONTRADICTED

_FEW = 5  # ticks whose numbers fit in a row on a phone
Places: TypeAlias = Mapping[str, dict[str, str] | None]
"""Where marks stand, by their names: a style for each, or None for one that is not shown."""


class Line(NamedTuple):
    """One curve: its look is a class of the style sheet, and `tell` writes a value under the pointer."""

    name: str
    look: str
    values: Floats
    tell: Callable[[float], str]


class Chart(NamedTuple):
    """What is written into the page, and what its script needs to know."""

    html: str
    hover: dict[str, Any]


def coverage_axis(contents: Contents) -> Axis:
    """Return the axis of thresholds."""
    finite = [q for step in contents.steps if np.isfinite(q := step.calibration.threshold)]
    chosen = contents.calibration.threshold
    return threshold_axis(contents.curve.thresholds, chosen if np.isfinite(chosen) else None, finite)


def coverage_chart(contents: Contents) -> Chart:
    """Return F^n, F^r and F^c against the threshold, with marks at the target and at the threshold."""
    curve, axis = contents.curve, coverage_axis(contents)
    lines = [
        Line("true labels, estimated (Fᶜ)", "true", curve.clean, _four),
        Line("given labels (Fⁿ)", "given", curve.noisy, _four),
        Line("random labels (Fʳ)", "random", curve.random, _four),
    ]
    places = moved(contents, contents.steps[contents.chosen])
    marks = "".join(
        _mark(name, kind, words, places)
        for name, kind, words in (
            ("target", "level", "asked for"),
            ("threshold", "upright", "threshold"),
            ("beyond", "upright", "threshold: further right"),
        )
    )
    return _plot(
        "coverage",
        axis,
        linear_axis(0, 1),
        curve.thresholds,
        lines,
        marks,
        titles=("threshold", "share in the sets"),
        stepped=True,
        behind=_bands(axis, curve, contents.calibration.warnings),
    )


def _bands(axis: Axis, curve: CoverageCurve, warnings: Sequence[str]) -> str:
    """Return shades where the estimate lay outside of 0 to 1, if the noise model is contradicted."""
    if curve.outside is None or not warnings:
        return ""
    edges = np.flatnonzero(np.diff(curve.outside, prepend=False, append=False))
    places = axis.place(np.append(curve.thresholds, np.inf)[edges]).reshape(-1, 2)
    seen = places[places[:, 1] > places[:, 0]].tolist()
    widest = max(seen, key=lambda pair: pair[1] - pair[0], default=None)
    return "".join(
        f"<i class='band' style='left:{_share(start)};width:{_share(end - start)}'>"
        + f"<span>{CONTRADICTED}</span>" * ([start, end] == widest)
        + "</i>"
        for start, end in seen
    )


def tradeoff_chart(contents: Contents) -> Chart:
    """Return the mean set size against the coverage that is asked for, with a mark at the chosen one."""
    rising = contents.steps[::-1]
    asked = np.array([1 - step.calibration.alpha for step in rising])
    sizes = Line("labels per set", "true", np.array([step.mean_size for step in rising]), _labels)
    return _plot(
        "tradeoff",
        _asked_axis(contents),
        _size_axis(contents),
        asked,
        [sizes],
        _mark("chosen", "dot", "", moved(contents, contents.steps[contents.chosen])),
        titles=("coverage asked for", "labels per set, on average"),
        tell=lambda value: f"asked for {value:g}",
    )


def sizes_chart(contents: Contents, chosen: int) -> str:
    """Return how many sets there are of each size, as bars, up to the largest for any alpha."""
    used = np.flatnonzero(sum(step.histogram for step in contents.steps)).max() + 1
    counts = contents.steps[chosen].histogram[:used].tolist()
    rows = "".join(
        f"<li data-bar><span>{name}</span>"
        f"<span><i style='width:{_share(count / max(1, *counts))}'></i></span>"
        f"<span class='count'>{count:,}</span></li>"
        for name, count in zip(contents.bins[:used], counts, strict=True)
    )
    return f"<ol class='bars'>{rows}</ol>"


def sensitivity_charts(sensitivity: Sensitivity) -> list[Chart]:
    """Return coverage, in truth and as believed, and set size against the stated noise rate."""
    rates, coverage, believed, sizes = np.array(
        [(row.rate, row.coverage, row.estimate, row.mean_size) for row in sensitivity.rows]
    ).T
    target = sensitivity.target
    axis = linear_axis(rates[0], rates[-1], tight=True)
    shares = [*coverage.tolist(), *believed.tolist(), target]
    share_axis = linear_axis(min(shares), min(max(shares), 1.0))
    stay = {
        "rate": {"left": _share(axis.place(sensitivity.rate))},
        "goal": {"bottom": _share(share_axis.place(target))},
    }
    right = _mark("rate", "upright", f"{sensitivity.rate:.3g}", stay)
    level = _mark("goal", "level", "asked for", stay)
    lines = [
        Line("coverage in truth", "true", coverage, _four),
        Line("coverage as believed", "given", believed, _four),
    ]
    size = Line("labels per set", "random", sizes, _labels)
    return [
        _plot(
            "sensitivity",
            axis,
            share_axis,
            rates,
            lines,
            level + right,
            titles=("", "coverage"),
            dots=True,
            tell=lambda value: f"stated rate {value:.3g}",
        ),
        _plot(
            "sensitivity-size",
            axis,
            linear_axis(0, float(sizes.max())),
            rates,
            [size],
            right,
            titles=("stated noise rate", "labels per set, on average"),
            dots=True,
            tell=lambda value: f"stated rate {value:.3g}",
        ),
    ]


def moved(contents: Contents, step: Step) -> Places:
    """Return where the marks stand for one alpha; None for one that is not shown."""
    cal = step.calibration
    axis, asked, sizes = coverage_axis(contents), _asked_axis(contents), _size_axis(contents)
    beyond = axis.high < cal.threshold < np.inf
    return {
        "target": {"bottom": _share(1 - cal.alpha)},
        "threshold": {"left": _share(axis.place(cal.threshold))} if cal.threshold <= axis.high else None,
        "beyond": {"left": "100%"} if beyond else None,
        "chosen": {
            "left": _share(asked.place(1 - cal.alpha)),
            "bottom": _share(sizes.place(step.mean_size)),
        },
    }


def _asked_axis(contents: Contents) -> Axis:
    asked = [1 - step.calibration.alpha for step in contents.steps]
    return linear_axis(min(asked), max(asked), tight=True)


def _size_axis(contents: Contents) -> Axis:
    sizes = [step.mean_size for step in contents.steps]
    wide = max(sizes) > 20 * max(min(sizes), 0.1)
    return log_axis(max(min(sizes), 0.1), max(sizes)) if wide else linear_axis(0, max(sizes))


def _plot(
    name: str,
    x: Axis,
    y: Axis,
    at: Floats,
    lines: Sequence[Line],
    marks: str,
    *,
    titles: tuple[str, str],
    stepped: bool = False,
    dots: bool = False,
    behind: str = "",
    tell: Callable[[float], str] = lambda value: f"threshold {value:.6g}",
) -> Chart:
    """Return curves over an axis; a stepped one holds its value up to the next place."""
    # What lies left of the axis is shown as the value at its left end.
    first = max(int(np.searchsorted(at, x.low, side="right")) - 1, 0)
    last = max(int(np.searchsorted(at, x.high, side="right")), first + 1)
    shown = slice(first, last)
    places = x.place(at[shown])
    keys = "".join(
        f"<li><svg viewBox='0 0 28 8'>{_stroke(line.look, 'M0 4H28')}</svg>{line.name}</li>" for line in lines
    )
    points = "".join(
        f"<i class='point {line.look}' style='left:{_share(a)};bottom:{_share(b)}'></i>"
        for line in lines
        for a, b in zip(places, y.place(line.values[shown]), strict=True)
        if dots
    )
    curves = "".join(
        _stroke(line.look, _path(places, y.place(line.values[shown]), stepped), " trace") for line in lines
    )
    page = (
        (f"<ul class='legend'>{keys}</ul>" if len(lines) > 1 else "")
        + f"<p class='axis'>{titles[1]}</p><div class='plot' id='{name}-chart' data-plot='{name}'>{behind}"
        + _ticks(x, "across", "left")
        + _ticks(y, "up", "bottom")
        + f"<svg viewBox='0 0 1000 1000' preserveAspectRatio='none' aria-hidden='true'>{curves}</svg>"
        + f"{points}{marks}</div><p class='axis below'>{titles[0]}</p>"
    )
    hover = {
        "at": [round(float(place), 5) for place in places],
        "stepped": stepped,
        "heads": [tell(value) for value in at[shown].tolist()],
        "lines": [
            {"name": name, "look": look, "texts": [tell(v) for v in values[shown].tolist()]}
            for name, look, values, tell in lines
        ],
    }
    return Chart(page, hover)


def _path(x: Floats, y: Floats, stepped: bool) -> str:
    """Return a path, with so many digits as a screen can show."""
    points = np.round(np.column_stack([1000 * x, 1000 - 1000 * y]), 1).tolist()
    start = f"M{points[0][0]:g} {points[0][1]:g}"
    if not stepped:
        return start + "".join(f"L{a:g} {b:g}" for a, b in points[1:])
    return start + "".join(f"H{a:g}V{b:g}" for a, b in points[1:]) + "H1000"


def _stroke(look: str, path: str, more: str = "") -> str:
    return f"<path class='{look}{more}' d='{path}' vector-effect='non-scaling-stroke'/>"


def _ticks(axis: Axis, kind: str, side: str) -> str:
    """Return ticks; of many, where there is little room, every other one has no number."""
    places = axis.place(axis.ticks)
    written = [_tick(axis, tick) for tick in axis.ticks]
    many = len(written) > _FEW
    looks = [
        kind + " spare" * (many and (len(written) - i) % 2 == 0) + " end" * (place > 0.97)
        for i, place in enumerate(places.tolist())
    ]
    return "".join(
        f"<i class='{look}' style='{side}:{_share(place)}'><span>{text}</span></i>"
        for look, place, text in zip(looks, places, written, strict=True)
    )


def _tick(axis: Axis, value: float) -> str:
    return f"{value:,.9g}" if axis.scale == "logit" else f"{value:,.6g}"


def _mark(name: str, kind: str, words: str, places: Places) -> str:
    """Return a mark where it belongs, or hidden; the slider moves those of `moved`."""
    place = places[name]
    style = "" if place is None else ";".join(f"{side}:{share}" for side, share in place.items())
    text = f"<span>{html.escape(words)}</span>" if words else ""
    hidden = " hidden" if place is None else ""
    return f"<i class='mark {kind}' data-mark='{name}' style='{style}'{hidden}>{text}</i>"


def _share(value: Any) -> str:
    return f"{100 * float(value):.2f}%"


def _four(value: float) -> str:
    return f"{value:.4f}"


def _labels(value: float) -> str:
    return f"{value:,.2f}"
