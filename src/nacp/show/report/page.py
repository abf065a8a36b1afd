"""A report as one HTML page that needs nothing from the network."""

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from nacp._types import Floats
from nacp.advice.comparison import labels_used
from nacp.calibration import Calibration
from nacp.show.report import charts, groups
from nacp.show.report.contents import Contents, Shown, Step
from nacp.wrapping import on_one_line

_PRINTED = 100  # so many classes, as in page.css


def render(contents: Contents, title: str, version: str) -> str:
    """Return the page."""
    drawn = {"coverage": charts.coverage_chart(contents), "tradeoff": charts.tradeoff_chart(contents)}
    if contents.sensitivity is not None:
        names = ("sensitivity", "sensitivity-size")
        drawn |= zip(names, charts.sensitivity_charts(contents.sensitivity), strict=True)
    steps = [_step(contents, i) for i in range(len(contents.steps))]
    data = {"steps": steps, "plots": {name: chart.hover for name, chart in drawn.items()}}
    parts = {
        "title": _safe(title),
        "opening": _opening(contents.calibration),
        "banner": _banner(contents.calibration),
        "chosen": str(contents.chosen),
        "last": str(len(contents.steps) - 1),
        "promise": _promise(contents.calibration),
        "coverage_chart": drawn["coverage"].html,
        "cut": _cut(contents),
        "tradeoff_chart": drawn["tradeoff"].html,
        "sizes_chart": charts.sizes_chart(contents, contents.chosen),
        "whose": contents.measured_on,
        "costs": _costs(contents),
        "noise": _noise(contents, drawn),
        "groups": "" if contents.groups is None else groups.section(contents.groups),
        "samples": _samples(contents),
        "classes": _classes(contents),
        "version": _safe(version),
        # Inside a script element, "</" would end it.
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "css": _asset("page.css"),
        "js": _asset("page.js"),
    }
    # What the slider moves is there without a script, too, for the alpha that was asked for.
    parts |= {f"text_{name}": _safe(text) for name, text in steps[contents.chosen]["texts"].items()}
    template = re.sub(r'(data-text="(\w+)"[^>]*>)', r"\1{{text_\2}}", _asset("page.html"))
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _texts(step: Step) -> dict[str, str]:
    """Return the texts that move with the slider."""
    cal = step.calibration
    texts = {
        "alpha": f"{cal.alpha:g}",
        "asked": f"{1 - cal.alpha:.6g}",
        "estimate": f"{cal.estimate:.4f}",
        "size": f"{step.mean_size:.2f}",
        "threshold": "none" if math.isinf(cal.threshold) else f"{cal.threshold:.6g}",
        "promise": _sentence(cal.promise),
        "added": _added(cal),
        "obstacle": _sentence(f"The sets hold all classes: {cal.obstacle}") if cal.obstacle else "",
        "note": _sentence(cal.note) if cal.note else "",
        "tested": "" if step.coverage is None else f"{step.coverage:.4f}",
        "error": _error(step),
        "end": "" if step.rate is None else f"for a noise rate of {step.rate:.4g}",
        "interval": _interval(step),
    }
    spoken = "alpha {alpha}: estimated coverage {estimate}, {size} labels per set, threshold {threshold}"
    return texts | {"spoken": spoken.format(**texts)}


def _added(cal: Calibration) -> str:
    promises = cal.guarantee.promises_truth or cal.guarantee.only_as_given
    if cal.obstacle is not None or not promises:
        return ""
    return (
        "To keep this, sets are chosen whose estimated coverage is "
        f"{cal.excess:.4f} above the coverage asked for."
    )


def _error(step: Step) -> str:
    """Return by how much the coverage of the test points may be wrong, for being measured on so many."""
    if step.coverage is None:
        return ""
    m = int(step.histogram.sum())
    return f"± {math.sqrt(step.coverage * (1 - step.coverage) / m):.4f}, from {m:,} points"


def _interval(step: Step) -> str:
    """Return which rate the estimate is for, where noise is known up to an interval."""
    if step.rate is None:
        return ""
    return (
        f"The noise rate is known up to an interval. The estimated coverage is for {step.rate:.4g}, the end "
        "of the interval that needs the larger sets."
    )


def _step(contents: Contents, i: int) -> dict[str, Any]:
    """Return what the page's script needs to know of one alpha."""
    step = contents.steps[i]
    return {
        "texts": _texts(step),
        "marks": charts.moved(contents, step),
        "histogram": step.histogram.tolist(),
        "samples": [int(sample.sizes[i]) for sample in contents.samples],
    }


def _opening(cal: Calibration) -> str:
    wrong = "" if cal.noise is None else ", some of them wrong"
    if cal.checked is not None:
        wrong = f", {cal.checked:,} of them checked"
    made = f"{cal.n:,} labels of {cal.k:,} classes{wrong}"
    return f"Calibrated on {made}. Score: <code>{_safe(repr(cal.score))}</code>."


def _banner(cal: Calibration) -> str:
    """Return what speaks against the noise model, for the head of the page."""
    return "".join(f"<p class='banner' role='alert'>{_safe(_sentence(each))}</p>" for each in cal.warnings)


def _cut(contents: Contents) -> str:
    """Return what the shade in the chart of coverage means, where there is one."""
    if not contents.calibration.warnings or not np.any(contents.curve.outside):
        return ""
    return (
        " In the shade the estimate came out above 1 or below 0 and is cut off, which shows that the noise "
        "model is wrong; it need not be right elsewhere."
    )


def _promise(cal: Calibration) -> str:
    lines = [f"Guarantee: <code>{_safe(repr(cal.guarantee))}</code>.", f"Assumed: {_safe(cal.assumptions)}."]
    if cal.price_of_doubt:
        price = f"{cal.price_of_doubt:.2g} labels per set at alpha = {cal.alpha:g}"
        lines.append(f"Not knowing the noise exactly costs {price}.")
    return "".join(f"<p>{line}</p>" for line in lines)


def _costs(contents: Contents) -> str:
    rows, audited = contents.costs.rows, contents.costs.audited
    tested = any(row.coverage is not None for row in rows)
    header = ["guarantee", *["from labels"] * audited, "labels per set", "estimated"]
    header += [*["by checked labels"] * audited, *["on test points"] * tested, "what it says"]
    written = [
        [row.guarantee, *[row.labels] * audited, _number(row.mean_size, ".2f"), _number(row.estimate, ".4f")]
        + [_number(row.checked_estimate, ".4f")] * audited
        + [_number(row.coverage, ".4f")] * tested
        + [_sentence(row.said(audited))]
        for row in rows
    ]
    guarantee = contents.calibration.guarantee
    mine = [guarantee.name, *labels_used(guarantee)[:1]] if audited else [guarantee.name]
    intro = f"With the same score, at alpha = {contents.calibration.alpha:g}."
    noise = contents.calibration.noise
    if not audited and noise is not None and len(noise.doubt.ends) > 1:
        intro += " Estimates are for that end of the interval of noise rates that needs the larger sets."
    table = _table(header, written, lambda row: row[: len(mine)] == mine)
    return f"<p class='soft'>{intro}</p><div class='guarantees'>{table}</div>"


def _noise(contents: Contents, drawn: dict[str, charts.Chart]) -> str:
    """Return where the noise model comes from, whether it can be right, and what if it is wrong."""
    cal = contents.calibration
    alpha = f"At alpha = {cal.alpha:g}."
    if cal.checked is not None:
        return _checked(contents, cal.checked, alpha)
    if cal.noise is None:
        return "<p>The labels are taken as they are.</p>"
    said = {"Estimated": contents.estimate, "Diagnosis": contents.diagnosis}
    text = f"<p class='soft'>{alpha}</p>" + "".join(
        f"<p class='lines'><strong>{name}.</strong> {_safe(on_one_line(what))}</p>"
        for name, what in said.items()
        if what is not None
    )
    found = contents.sensitivity
    if found is None:
        return text
    header = ["stated rate", "coverage in truth", "as believed", "labels per set"]
    rows = [
        [f"{row.rate:.3g}", f"{row.coverage:.4f}", f"{row.estimate:.4f}", f"{row.mean_size:.2f}"]
        for row in found.rows
    ]
    caption = f"If the noise rate is {found.rate:.3g} in truth and another one is stated. {found.advice}."
    name = "sensitivity-caption"
    return (
        f"{text}<figure><div class='chart' role='img' aria-labelledby='{name}'>"
        f"{drawn['sensitivity'].html}{drawn['sensitivity-size'].html}</div>"
        f"<figcaption id='{name}'>{caption}</figcaption></figure>"
        "<details><summary>The same in numbers</summary>"
        f"{_scroll('Coverage by stated rate', header, rows)}</details>"
    )


def _checked(contents: Contents, checked: int, alpha: str) -> str:
    """Return that no noise model is needed, what checked labels say, and of a model given beside them."""
    cal = contents.calibration
    error = "" if not cal.deviation else f" ± {100 * cal.deviation / math.sqrt(checked):.1f}%"
    said = (
        f"No noise model is needed: the promise rests on {checked:,} checked labels. At the threshold they "
        f"say that {100 * cal.estimate:.1f}%{error} of the true labels are in the sets."
    )
    text = f"<p class='soft'>{alpha}</p><p>{_safe(said)}</p>"
    if contents.diagnosis is None:
        return text
    model = "The noise model that was given only helps to make these sets small. Taken by itself:"
    return f"{text}<p>{model}</p><p class='lines'>{_safe(on_one_line(contents.diagnosis))}</p>"


def _samples(contents: Contents) -> str:
    intro = "The likeliest labels first. "
    label = {"calibration": "the given label, which may be wrong", "test": "the true label"}[
        contents.measured_on
    ]
    marked = any(sample.label is not None for sample in contents.samples)
    items = "".join(_sample(contents, i, sample) for i, sample in enumerate(contents.samples))
    return (
        f"<p class='soft'>{intro}{f'Framed: {label}.' if marked else ''}</p><ul class='samples'>{items}</ul>"
    )


def _sample(contents: Contents, i: int, sample: Shown) -> str:
    size = int(sample.sizes[contents.chosen])
    missing = ""
    if sample.label is not None:
        missing = (
            f"<span class='missing' data-place='{sample.place}'{' hidden' if size > sample.place else ''}>"
            f"Not in it: {_safe(str(sample.label))}.</span>"
        )
    quote = "" if sample.description is None else f"<blockquote>{_safe(sample.description)}</blockquote>"
    names = "".join(
        f"<li class='{'label' if label == sample.label else ''}{' out' if place >= size else ''}'>"
        f"{_safe(str(label))} <span class='soft'>{_share(prob)}</span></li>"
        for place, (label, prob) in enumerate(zip(sample.labels, sample.probs.tolist(), strict=True))
    )
    counted = "1 label" if size == 1 else f"{size:,} labels"
    more = f"and {size - len(sample.labels):,} more" if size > len(sample.labels) else ""
    return (
        f"<li data-sample='{i}'>"
        f"<span class='soft'>row {sample.row:,}: <span class='size'>{counted}</span></span>"
        f"{quote}<ul class='set'>{names}</ul><span class='soft more'>{more}</span>{missing}</li>"
    )


def _classes(contents: Contents) -> str:
    found, cal = contents.classes, contents.calibration
    if contents.tested:
        how = f"Measured on {contents.tested:,} test points with true labels, with exact intervals."
    elif cal.checked is not None:
        how = f"Measured on the {cal.checked:,} checked points, with exact intervals."
    elif cal.noise is None:
        how = "Measured on the calibration points, with exact intervals."
    else:
        how = (
            "Estimated from the noisy labels of the calibration points and the noise model, with approximate "
            "intervals."
        )
    names = cal.classes or range(cal.k)
    rows = [
        [
            str(names[i]),
            _share(found.coverage[i]),
            f"{_share(found.low[i])} to {_share(found.high[i])}",
            f"{found.count[i]:,}",
        ]
        for i in found.worst_first().tolist()
    ]
    unseen = cal.k - len(rows)
    counted = "one class" if unseen == 1 else f"{unseen:,} classes"
    left_out = f" Too few labels to say anything of {counted}." if unseen else ""
    header = ["class", "coverage", "95% interval", "labels"]
    printed = ""
    if len(rows) > _PRINTED:
        printed = f"<p class='soft printed'>On paper: the worst {_PRINTED} of {len(rows):,} classes.</p>"
    return (
        f"<p class='soft'>{how} At alpha = {cal.alpha:g}, the worst first. No coverage by class is promised."
        f"{left_out}</p>"
        "<div class='search'><label for='search'>Find a class </label>"
        "<input type='search' id='search'> <span id='found' class='soft' role='status'></span></div>"
        "<div id='classes' class='tall' tabindex='0' role='region' aria-label='Classes'>"
        f"{_table(header, rows)}</div>{printed}"
    )


def _scroll(name: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in a box that scrolls sideways where there is no room."""
    return f"<div class='scroll' tabindex='0' role='region' aria-label='{name}'>{_table(header, rows)}</div>"


def _table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    chosen: Callable[[Sequence[str]], bool] | None = None,
) -> str:
    """Return a table whose first column names its rows; columns of numbers are set to the right.

    Where a row is chosen, cells know the name of their column, as rows become cards in a narrow window. There
    may be thousands of rows, so end tags that HTML can do without are left out.
    """
    written = list(rows)
    columns = range(1, len(header))
    kinds = {i: " class=number" if all(_numeric(row[i]) for row in written) else "" for i in columns}
    names = {i: f" data-name='{header[i]}'" if chosen else "" for i in columns}
    head = "".join(f"<th scope=col{kinds.get(i, '')}>{name}" for i, name in enumerate(header))
    body = "".join(
        f"<tr{' class=chosen' if chosen and chosen(row) else ''}><th scope=row>{_safe(row[0])}"
        + "".join(f"<td{kinds[i]}{names[i]}>{_safe(row[i])}" for i in columns)
        for row in written
    )
    return f"<table><thead><tr>{head}</thead><tbody>{body}</tbody></table>"


def _numeric(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in "-<–"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _share(value: float | Floats) -> str:
    return f"{100 * value:.1f}%" if value == 0 or value >= 0.0005 else "<0.1%"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _safe(text: str) -> str:
    return html.escape(text, quote=True)


def _asset(name: str) -> str:
    return (resources.files("nacp.show.report") / name).read_text(encoding="utf-8")
