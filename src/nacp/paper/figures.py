"""The figures, if matplotlib is installed: the same bytes from the same numbers."""

import importlib.util
import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nacp.files import write_whole
from nacp.paper.corrections import CorrectionRow
from nacp.paper.experiments import ALPHA, CALIBRATION_SIZES, RATES, Experiment, Row
from nacp.show.style import RC, style_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def available() -> bool:
    """Return whether figures can be drawn: matplotlib is an extra."""
    return importlib.util.find_spec("matplotlib") is not None


def corrections_figure(rows: Sequence[CorrectionRow], title: str) -> "Figure":
    """Return the corrections against n: one panel for each number of classes."""
    by_k = _grouped(rows, lambda row: row.k)
    figure, panels = _panels(title, len(by_k), 1)
    for axes, (k, of_k) in zip(panels, by_k.items(), strict=True):
        for method, points in _grouped(of_k, lambda row: row.method).items():
            shown = [row for row in points if math.isfinite(row.correction)]
            _line(axes, method, [row.n for row in shown], [row.correction for row in shown])
        _all_classes(axes)
        axes.set(xscale="log", yscale="log", xlabel="calibration points", ylim=(2e-5, 5))
        axes.set_title(f"{k} classes")
    panels[0].set_ylabel("correction Δ")
    return _with_legend(figure, panels)


def methods_figure(experiment: Experiment, rows: Sequence[Row]) -> "Figure":
    """Return the sizes of all methods: one panel for each classifier and score, or noise model."""
    by_setting = _grouped(rows, lambda row: f"{row.title}\n{row.setting or row.score.upper()}")
    columns = 3
    figure, panels = _panels(experiment.title, columns, math.ceil(len(by_setting) / columns), height=1.75)
    for axes, (heading, of_setting) in zip(panels, by_setting.items(), strict=False):
        names = [row.method for row in of_setting]
        for y, row in enumerate(of_setting):
            colour, marker = style_of(row.method)
            ours: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "linestyle": "none"}
            axes.errorbar(row.size, y, xerr=row.size_sd, label="ours" if y == 0 else None, **ours)
            if row.paper_size is not None:
                paper = ours | {"color": "#555555", "marker": "|", "markersize": 13}
                axes.plot(row.paper_size, y, label="paper" if y == 0 else None, **paper)
        axes.set_title(heading, parse_math=False)
        axes.set(xscale="log", yticks=range(len(names)), ylim=(len(names) - 0.4, -0.6))
        axes.set_yticklabels(names if axes in panels[::columns] else [""] * len(names))
        axes.set_xlim(0.7, 1.6 * of_setting[0].k)
    for axes in panels[len(by_setting) :]:
        axes.set_axis_off()
    for axes in panels[max(0, len(by_setting) - columns) : len(by_setting)]:
        axes.set_xlabel("mean set size")
    return _with_legend(figure, panels) if experiment.versus_paper else figure


def sweep_figure(experiment: Experiment, rows: Sequence[Row], varied: str, xlabel: str) -> "Figure":
    """Return size, coverage and correction against a field of the rows, with panels for each classifier."""
    x_of = attrgetter(varied)
    by_title = _grouped(rows, lambda row: row.title)
    figure, panels = _panels(experiment.title, 3, len(by_title))
    corrected = {each.name for setting in experiment.settings for each in setting.methods if each.corrected}
    for i, (heading, of_title) in enumerate(by_title.items()):
        size, coverage, correction = panels[3 * i : 3 * i + 3]
        shown = {x_of(row) for row in of_title}
        ticks = [x for x in (*CALIBRATION_SIZES, *RATES[1:]) if x in shown]
        for method, points in _grouped(of_title, lambda row: row.method).items():
            x = [x_of(row) for row in points]
            _line(size, method, x, [row.size for row in points])
            _line(coverage, method, x, [row.coverage for row in points])
            if method in corrected:
                _line(correction, method, x, [row.correction for row in points])
        _all_classes(correction)
        coverage.axhline(100 * (1 - ALPHA), color="#555555", linewidth=0.8, linestyle=":")
        size.set_title(heading, parse_math=False)
        size.set(yscale="log", ylabel="mean set size")
        coverage.set(ylabel="coverage %")
        correction.set(yscale="log", ylabel="correction Δ")
        for axes in (size, coverage, correction):
            axes.set(xscale="log" if max(shown) > 1 else "linear")
            axes.set_xlabel(xlabel if i == len(by_title) - 1 else "")
            axes.set_xticks(ticks, [f"{x:,g}" for x in ticks], minor=False)
            axes.minorticks_off()
    return _with_legend(figure, panels)


def save(draw: Callable[[], "Figure"], stem: Path, origin: Sequence[str]) -> list[Path]:
    """Write a figure as PNG and SVG, with how it was made inside; `stem` is the path without its ending."""
    import matplotlib

    told = " ".join(origin)
    metadata: dict[str, dict[str, str | None]] = {
        ".png": {"Software": None, "Description": told},
        ".svg": {"Date": None, "Creator": None, "Description": told},
    }
    with matplotlib.rc_context(RC):
        figure = draw()
        for ending, each in metadata.items():
            write = partial(figure.savefig, format=ending.removeprefix("."), dpi=150, metadata=each)
            write_whole(stem.with_suffix(ending), "wb", write)
    return [stem.with_suffix(ending) for ending in metadata]


def _panels(title: str, columns: int, rows: int, height: float = 2.5) -> tuple["Figure", list["Axes"]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * columns, height * rows + 0.9), layout="constrained")
    figure.suptitle(title, parse_math=False)  # a $ in a name is a $
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def _with_legend(figure: "Figure", panels: list["Axes"]) -> "Figure":
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles))
    return figure


def _line(axes: "Axes", method: str, x: Sequence[float], y: Sequence[float]) -> None:
    colour, marker = style_of(method)
    axes.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.2, label=method)


def _all_classes(axes: "Axes") -> None:
    axes.axhline(ALPHA, color="#555555", linewidth=0.8, linestyle=":", label="above: all classes")


def _grouped(items: Sequence[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
