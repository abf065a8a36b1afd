"""Figures, if matplotlib is there: the same bytes from the same numbers."""

import importlib.util
import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nacp.files import write_whole
from nacp.paper.corrections import Correction
from nacp.paper.experiments import ALPHA, CALIBRATION_SIZES, RATES, Experiment
from nacp.paper.results import Record
from nacp.show.style import RC, style_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def available() -> bool:
    """Return whether figures can be drawn: matplotlib is an extra.

    Examples
    --------
    >>> from nacp.paper import figures
    >>> figures.available() in (True, False)
    True
    """
    return importlib.util.find_spec("matplotlib") is not None


def corrections_figure(rows: Sequence[Correction], title: str) -> "Figure":
    """Return the corrections against n: one panel for each number of classes.

    Parameters
    ----------
    rows : sequence of Correction
        What to draw.
    title : str
        Above the panels.
    """
    by_k = _grouped(rows, lambda row: row.k)
    figure, panels = _panels(title, len(by_k), 1)
    for axes, (k, of_k) in zip(panels, by_k.items(), strict=True):
        for method, points in _grouped(of_k, lambda row: row.method).items():
            shown = [row for row in points if math.isfinite(row.value.mean)]
            _line(axes, method, [row.n for row in shown], [row.value.mean for row in shown])
        _all_classes(axes)
        axes.set(
            xscale="log", yscale="log", xlabel="calibration points", title=f"{k} classes", ylim=(2e-5, 5)
        )
    panels[0].set_ylabel("correction Δ")
    return _with_legend(figure, panels)


def methods_figure(experiment: Experiment, records: Sequence[Record]) -> "Figure":
    """Return the sizes of all methods: one panel for each classifier and score, or noise.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    records : sequence of Record
        What came out.
    """
    by_setting = _grouped(records, _heading)
    columns = 3
    figure, panels = _panels(experiment.title, columns, math.ceil(len(by_setting) / columns), height=1.75)
    for axes, (heading, of_setting) in zip(panels, by_setting.items(), strict=False):
        names = [record.method for record in of_setting]
        for y, record in enumerate(of_setting):
            colour, marker = style_of(record.method)
            axes.errorbar(
                record.size.mean, y, xerr=record.size.sd, color=colour, marker=marker, markersize=5,
                label="ours" if y == 0 else None, linestyle="none",
            )  # fmt: skip
            if record.printed is not None:
                axes.plot(
                    record.printed.size.mean, y, marker="|", markersize=13, color="#555555", linestyle="none",
                    label="paper" if y == 0 else None,
                )  # fmt: skip
        axes.set_title(heading, parse_math=False)
        axes.set(xscale="log", yticks=range(len(names)), ylim=(len(names) - 0.4, -0.6))
        axes.set_yticklabels(names if axes in panels[::columns] else [""] * len(names))
        axes.set_xlim(0.7, 1.6 * of_setting[0].k)
    for axes in panels[len(by_setting) :]:
        axes.set_axis_off()
    for axes in panels[max(0, len(by_setting) - columns) : len(by_setting)]:
        axes.set_xlabel("mean set size")
    return _with_legend(figure, panels) if experiment.versus_paper else figure


def sweep_figure(records: Sequence[Record], xlabel: str, title: str) -> "Figure":
    """Return size, coverage and correction against what varies: one row of panels for each classifier.

    Parameters
    ----------
    records : sequence of Record
        What to draw.
    xlabel : str
        What varies.
    title : str
        Above the panels.
    """
    by_source = _grouped(records, lambda record: record.setting.source.title)
    figure, panels = _panels(title, 3, len(by_source))
    scale = "log" if any(record.setting.x > 1 for record in records) else "linear"
    for row, (heading, of_source) in enumerate(by_source.items()):
        size, coverage, correction = panels[3 * row : 3 * row + 3]
        ticks = [x for x in (*CALIBRATION_SIZES, *RATES[1:]) if any(x == r.setting.x for r in of_source)]
        corrected = [method.name for method in of_source[0].setting.methods if method.corrected]
        for method, points in _grouped(of_source, lambda record: record.method).items():
            x = [record.setting.x for record in points]
            _line(size, method, x, [record.size.mean for record in points])
            _line(coverage, method, x, [record.coverage.mean for record in points])
            if method in corrected:
                _line(correction, method, x, [record.correction for record in points])
        _all_classes(correction)
        coverage.axhline(100 * (1 - ALPHA), color="#555555", linewidth=0.8, linestyle=":")
        size.set_title(heading, parse_math=False)
        size.set(yscale="log", ylabel="mean set size")
        coverage.set(ylabel="coverage %")
        correction.set(yscale="log", ylabel="correction Δ")
        for axes in (size, coverage, correction):
            axes.set(xscale=scale, xlabel=xlabel if row == len(by_source) - 1 else "")
            axes.set_xticks(ticks, [f"{x:,g}" for x in ticks], minor=False)
            axes.minorticks_off()
    return _with_legend(figure, panels)


def save(draw: Callable[[], "Figure"], stem: Path, origin: Sequence[str]) -> list[Path]:
    """Write a figure as PNG and SVG, with how it was made inside.

    Parameters
    ----------
    draw : callable
        Returns the figure.
    stem : Path
        Where to, without the ending.
    origin : sequence of str
        How it was made.
    """
    import matplotlib

    told = " ".join(origin)
    metadata: dict[str, dict[str, str | None]] = {
        ".png": {"Software": None, "Description": told},
        ".svg": {"Date": None, "Creator": None, "Description": told},
    }
    paths = [stem.with_suffix(ending) for ending in metadata]
    with matplotlib.rc_context(RC):
        figure = draw()
        for path in paths:
            ending = path.suffix.removeprefix(".")
            write_whole(
                path, "wb", partial(figure.savefig, format=ending, dpi=150, metadata=metadata[path.suffix])
            )
    return paths


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


def _heading(record: Record) -> str:
    return f"{record.setting.source.title}\n{record.setting.label or record.setting.score.upper()}"


def _grouped(items: Sequence[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
