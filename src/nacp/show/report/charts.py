"""The charts of a report, as HTML and SVG that fit any width, on screen and on paper, without a script.

Curves are stretched to the plot; ticks, marks and their words are placed by percentages. The page's script
moves the marks with the slider, by their ``data-mark``, and shows the values under the pointer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Floats
from nacp.show.axes import Axis, linear_axis, log_axis, threshold_axis
from nacp.show.report.contents import Contents, Step
from nacp.show.report.markup import place
from nacp.show.style import IN_DOUBT

_ROOM = 5  # ticks whose numbers fit in a row on a phone


class Line(NamedTuple):
    """One curve: its look is a class of the style sheet, and `form` the format of its values."""

    name: str
    look: str
    values: Floats
    form: str = "{:.2f}%"


class Chart(NamedTuple):
    """The markup of a chart, and the values under the pointer for the page's script."""

    html: str
    hover: dict[str, Any]


def coverage_chart(contents: Contents) -> Chart:
    """Return F^n, F^r and F^c against the threshold, with marks at the target and at the threshold."""
    curve = contents.curve
    doubt = f": {IN_DOUBT}" if contents.calibration.warnings else ""
    lines = [
        Line(f"true labels, estimated (Fᶜ){doubt}", "true", 100 * curve.clean),
        Line("given labels (Fⁿ)", "given", 100 * curve.noisy),
        Line("random labels (Fʳ)", "random", 100 * curve.random),
    ]
    marks = _mark("target", "level", "target")
    marks += _mark("threshold", "upright", "threshold")
    marks += _mark("beyond", "upright", "threshold: further right")
    axes = _coverage_axis(contents), linear_axis(0, 100)
    titles = "threshold", "share in the sets, %"
    return _plot("coverage", axes, curve.thresholds, lines, marks, titles, stepped=True)


def tradeoff_chart(contents: Contents) -> Chart:
    """Return the mean set size against the target coverage, with a mark at the chosen one."""
    rising = contents.steps[::-1]
    asked = np.array([_asked(step) for step in rising])
    sizes = Line("labels per set", "true", np.array([step.mean_size for step in rising]), "{:,.2f}")
    mark = _mark("chosen", "dot")
    titles = "target coverage, %", "labels per set, on average"
    return _plot("tradeoff", _tradeoff_axes(contents), asked, [sizes], mark, titles, head="target {:.6g}%")


def sizes_chart(contents: Contents) -> str:
    """Return how many sets there are of each size, as bars, up to the largest for any alpha."""
    rows = "".join(
        f"<li><span>{name}</span><span>{_mark(f'bar{j}', 'bar')}</span>"
        f"<span class='count' data-text=\"count{j}\"></span></li>"
        for j, name in enumerate(contents.ranges[1])
    )
    return f"<ol class='bars'>{rows}</ol>"


def moved(contents: Contents, step: Step) -> dict[str, dict[str, str] | None]:
    """Return for one alpha the style of each mark and bar, by their names; None for one that is hidden."""
    cal, axis = step.calibration, _coverage_axis(contents)
    asked, sizes = _tradeoff_axes(contents)
    counts = contents.histogram(step)
    bars = {f"bar{j}": {"width": place(count / counts.max())} for j, count in enumerate(counts)}
    return {
        **bars,
        "target": {"bottom": place(1 - cal.alpha)},
        "threshold": {"left": place(axis.place(cal.threshold))} if cal.threshold <= axis.high else None,
        "beyond": {"left": "100%"} if axis.high < cal.threshold < np.inf else None,
        "chosen": {
            "left": place(asked.place(_asked(step))),
            "bottom": place(sizes.place(step.mean_size)),
        },
    }


def _coverage_axis(contents: Contents) -> Axis:
    finite = [q for step in contents.steps if np.isfinite(q := step.calibration.threshold)]
    chosen = contents.calibration.threshold
    return threshold_axis(contents.curve.thresholds, chosen if np.isfinite(chosen) else None, finite)


def _asked(step: Step) -> float:
    return 100 * (1 - step.calibration.alpha)


def _tradeoff_axes(contents: Contents) -> tuple[Axis, Axis]:
    asked = [_asked(step) for step in contents.steps]
    sizes = [step.mean_size for step in contents.steps]
    low, high = max(min(sizes), 0.1), max(sizes)
    upwards = log_axis(low, high) if high > 20 * low else linear_axis(0, high)
    return linear_axis(min(asked), max(asked), tight=True), upwards


def _plot(
    name: str,
    axes: tuple[Axis, Axis],
    at: Floats,
    lines: Sequence[Line],
    marks: str,
    titles: tuple[str, str],
    *,
    stepped: bool = False,
    head: str = "threshold {:.6g}",
) -> Chart:
    """Return curves over an axis; a stepped one holds its value up to the next place."""
    x, y = axes
    # What lies left of the axis is shown as the value at its left end.
    first = max(int(np.searchsorted(at, x.low, side="right")) - 1, 0)
    last = max(int(np.searchsorted(at, x.high, side="right")), first + 1)
    places = x.place(at[first:last])
    shown = [line._replace(values=line.values[first:last]) for line in lines]
    keys = "".join(
        f"<li><svg viewBox='0 0 28 8'>{_stroke(line.look, 'M0 4H28')}</svg>{line.name}</li>" for line in lines
    )
    curves = "".join(_stroke(each.look, _path(places, y.place(each.values), stepped)) for each in shown)
    page = (
        (f"<ul class='legend'>{keys}</ul>" if len(lines) > 1 else "")
        + f"<p class='axis'>{titles[1]}</p><div class='plot' id='{name}-chart' data-plot='{name}'>"
        + _ticks(x, "across", "left")
        + _ticks(y, "up", "bottom")
        + f"<svg viewBox='0 0 1000 1000' preserveAspectRatio='none' aria-hidden='true'>{curves}</svg>"
        + f"{marks}</div><p class='axis below'>{titles[0]}</p>"
    )
    hover = {
        "at": places.round(5).tolist(),
        "stepped": stepped,
        "heads": [head.format(value) for value in at[first:last]],
        "lines": [
            {"name": each.name, "look": each.look, "texts": [each.form.format(v) for v in each.values]}
            for each in shown
        ],
    }
    return Chart(page, hover)


def _path(x: Floats, y: Floats, stepped: bool) -> str:
    """Return a path, with as many digits as a screen can show."""
    (a, b), *others = np.round(np.column_stack([1000 * x, 1000 - 1000 * y]), 1).tolist()
    if not stepped:
        return f"M{a:g} {b:g}" + "".join(f"L{a:g} {b:g}" for a, b in others)
    return f"M{a:g} {b:g}" + "".join(f"H{a:g}V{b:g}" for a, b in others) + "H1000"


def _stroke(look: str, path: str) -> str:
    return f"<path class='{look}' d='{path}' vector-effect='non-scaling-stroke'/>"


def _ticks(axis: Axis, kind: str, side: str) -> str:
    """Return ticks; of many, where there is little room, every other one has no number."""
    form, many = ",.9g" if axis.scale == "logit" else ",.6g", len(axis.ticks) > _ROOM
    written = ""
    for i, (tick, at) in enumerate(zip(axis.ticks, axis.place(axis.ticks), strict=True)):
        spare, end = many and (len(axis.ticks) - i) % 2 == 0, bool(at > 0.97)
        look = kind + " spare" * spare + " end" * end
        written += f"<i class='{look}' style='{side}:{place(at)}'><span>{tick:{form}}</span></i>"
    return written


def _mark(name: str, kind: str, words: str = "") -> str:
    """Return a mark, which the page puts in the place that `moved` returns."""
    text = f"<span>{words}</span>" if words else ""
    return f"<i class='mark {kind}' data-mark=\"{name}\">{text}</i>"
