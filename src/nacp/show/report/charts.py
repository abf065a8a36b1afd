"""The charts of a report, as plotly figures. The page's script moves what the slider moves."""

from typing import TYPE_CHECKING, Any

from nacp.advice.sensitivity import Sensitivity
from nacp.show.report.contents import Contents

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Told apart by most eyes, and readable on white and on black.
TRUE, GIVEN, RANDOM, MARK = "#2b8cd6", "#d9730d", "#12a07a", "#b8527f"
_BARE: dict[str, Any] = {
    "margin": {"l": 56, "r": 16, "t": 16, "b": 48},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "system-ui, sans-serif", "size": 13},
    "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    "hovermode": "x unified",
    "dragmode": False,
}


def coverage_chart(contents: Contents) -> "Figure":
    """Return F^n, F^r and F^c against the threshold; shapes 0 and 1 are the target and the threshold."""
    import plotly.graph_objects as go

    curve, cal = contents.curve, contents.calibration
    figure = go.Figure(layout=_BARE)
    for name, values, colour, dash in (
        ("true labels, estimated (F<sup>c</sup>)", curve.clean, TRUE, "solid"),
        ("given labels (F<sup>n</sup>)", curve.noisy, GIVEN, "dash"),
        ("random labels (F<sup>r</sup>)", curve.random, RANDOM, "dot"),
    ):
        figure.add_scatter(
            x=_short(curve.thresholds),
            y=_short(values),
            name=name,
            mode="lines",
            line={"color": colour, "dash": dash, "width": 2.5, "shape": "hv"},
            hovertemplate="%{y:.1%}",
        )
    figure.add_hline(1 - cal.alpha, line={"color": MARK, "width": 1.5, "dash": "dash"})
    figure.add_vline(min(cal.threshold, curve.thresholds[-1]), line={"color": MARK, "width": 1.5})
    figure.update_xaxes(title="threshold", showgrid=False)
    figure.update_yaxes(title="share in the sets", tickformat=".0%", rangemode="tozero")
    return figure


def tradeoff_chart(contents: Contents) -> "Figure":
    """Return the mean set size against the coverage that is asked for; trace 1 marks the chosen one."""
    import plotly.graph_objects as go

    figure = go.Figure(layout=_BARE)
    asked = [1 - step.calibration.alpha for step in contents.steps]
    sizes = [step.mean_size for step in contents.steps]
    figure.add_scatter(
        x=asked, y=sizes, mode="lines", line={"color": TRUE, "width": 2.5},
        hovertemplate="%{y:.2f} labels",
    )  # fmt: skip
    figure.add_scatter(
        x=asked[contents.chosen : contents.chosen + 1],
        y=sizes[contents.chosen : contents.chosen + 1],
        mode="markers",
        marker={"color": MARK, "size": 12},
        hoverinfo="skip",
    )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(title="coverage asked for", tickformat=".0%", showgrid=False)
    wide = max(sizes) > 20 * max(min(sizes), 0.1)
    figure.update_yaxes(title="mean set size", type="log" if wide else "linear", dtick=1 if wide else None)
    return figure


def sizes_chart(contents: Contents) -> "Figure":
    """Return how many sets there are of each size."""
    import plotly.graph_objects as go

    counts = contents.steps[contents.chosen].histogram
    figure = go.Figure(layout=_BARE)
    figure.add_bar(
        x=list(contents.bins),
        y=counts.tolist(),
        marker={"color": TRUE},
        hovertemplate="%{y} sets<extra></extra>",
    )
    figure.update_xaxes(title="labels in a set", type="category", showgrid=False, automargin=True)
    figure.update_yaxes(title="sets", rangemode="tozero")
    return figure


def sensitivity_chart(sensitivity: Sensitivity) -> "Figure":
    """Return coverage, in truth and as believed, and set size against the stated noise rate."""
    from plotly.subplots import make_subplots

    rows = sensitivity.rows
    rates = [row.rate for row in rows]
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.08).update_layout(_BARE)
    for name, values, colour, dash, place in (
        ("coverage in truth", [row.coverage for row in rows], TRUE, "solid", 1),
        ("coverage as believed", [row.estimate for row in rows], GIVEN, "dash", 1),
        ("labels per set", [row.mean_size for row in rows], RANDOM, "solid", 2),
    ):
        figure.add_scatter(
            x=rates, y=values, name=name, mode="lines+markers", line={"color": colour, "dash": dash},
            row=place, col=1,
        )  # fmt: skip
    figure.add_hline(sensitivity.target, line={"color": MARK, "width": 1.5, "dash": "dash"}, row=1, col=1)
    figure.add_vline(sensitivity.rate, line={"color": MARK, "width": 1.5})
    figure.update_xaxes(showgrid=False)
    figure.update_xaxes(title="stated noise rate", row=2, col=1)
    figure.update_yaxes(title="coverage", tickformat=".0%", row=1, col=1)
    figure.update_yaxes(title="mean set size", rangemode="tozero", row=2, col=1)
    return figure


def _short(values: Any) -> list[float]:
    """Return numbers with as many digits as a chart can show."""
    return [float(f"{value:.6g}") for value in values.tolist()]
