"""A report as one HTML page that needs nothing from the network."""

import json
import math
import re
from importlib import resources
from typing import Any

import numpy as np

from nacp._types import Floats
from nacp.calibration import Calibration
from nacp.show.report import charts, groups
from nacp.show.report.contents import Contents, Shown, Step
from nacp.show.report.markup import box, figure, safe, table
from nacp.wrapping import on_one_line

PRINTED = 100  # classes that are listed on paper, as in page.css


def render(contents: Contents, title: str, version: str) -> str:
    """Return the page."""
    drawn = {"coverage": charts.coverage_chart(contents), "tradeoff": charts.tradeoff_chart(contents)}
    if contents.sensitivity is not None:
        drawn |= charts.sensitivity_charts(contents.sensitivity)
    steps = [_step(contents, i) for i in range(len(contents.steps))]
    data = {"steps": steps, "plots": {name: chart.hover for name, chart in drawn.items()}}
    parts = {
        "title": safe(title),
        "opening": _opening(contents.calibration),
        "banner": "".join(
            f"<p class='banner' role='alert'>{safe(_sentence(each))}</p>"
            for each in contents.calibration.warnings
        ),
        "chosen": str(contents.chosen),
        "last": str(len(contents.steps) - 1),
        "promise": _promise(contents.calibration),
        "coverage_chart": drawn["coverage"].html,
        "cut": _cut(contents),
        "tradeoff_chart": drawn["tradeoff"].html,
        "sizes_chart": charts.sizes_chart(contents, contents.chosen),
        "whose": contents.measured_on,
        "comparison": _comparison(contents),
        "noise": _noise(contents, drawn),
        "groups": "" if contents.groups is None else groups.section(contents.groups),
        "samples": _samples(contents),
        "classes": _classes(contents),
        "version": safe(version),
        # Inside a script element, "</" would end it.
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "css": _asset("page.css"),
        "js": _asset("page.js"),
    }
    # What the slider moves is there without a script, too, for the alpha that was asked for.
    parts |= {f"text_{name}": safe(text) for name, text in steps[contents.chosen]["texts"].items()}
    template = re.sub(r'(data-text="(\w+)"[^>]*>)', r"\1{{text_\2}}", _asset("page.html"))
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _step(contents: Contents, i: int) -> dict[str, Any]:
    """Return the data of one alpha for the page's script."""
    step = contents.steps[i]
    return {
        "texts": _texts(step),
        "marks": charts.moved(contents, step),
        "histogram": step.histogram.tolist(),
        "samples": [int(sample.sizes[i]) for sample in contents.samples],
    }


def _texts(step: Step) -> dict[str, str]:
    """Return the texts that the slider changes."""
    cal = step.calibration
    added = error = interval = ""
    if cal.obstacle is None and (cal.guarantee.promises_truth or cal.guarantee.only_as_given):
        added = (
            "To keep this, sets are chosen whose estimated coverage is "
            f"{cal.excess:.4f} above the coverage asked for."
        )
    if step.coverage is not None:
        m = int(step.histogram.sum())
        error = f"± {math.sqrt(step.coverage * (1 - step.coverage) / m):.4f}, from {m:,} points"
    if step.rate is not None:
        interval = (
            f"The noise rate is known up to an interval. The estimated coverage is for {step.rate:.4g}, the "
            "end of the interval that needs the larger sets."
        )
    texts = {
        "alpha": f"{cal.alpha:g}",
        "asked": f"{1 - cal.alpha:.6g}",
        "estimate": f"{cal.estimate:.4f}",
        "size": f"{step.mean_size:.2f}",
        "threshold": "none" if math.isinf(cal.threshold) else f"{cal.threshold:.6g}",
        "promise": _sentence(cal.promise),
        "added": added,
        "obstacle": _sentence(f"The sets hold all classes: {cal.obstacle}") if cal.obstacle else "",
        "note": _sentence(cal.note) if cal.note else "",
        "tested": "" if step.coverage is None else f"{step.coverage:.4f}",
        "error": error,
        "end": "" if step.rate is None else f"for a noise rate of {step.rate:.4g}",
        "interval": interval,
    }
    spoken = "alpha {alpha}: estimated coverage {estimate}, {size} labels per set, threshold {threshold}"
    return texts | {"spoken": spoken.format(**texts)}


def _opening(cal: Calibration) -> str:
    wrong = "" if cal.noise is None else ", some of them wrong"
    if cal.checked is not None:
        wrong = f", {cal.checked:,} of them checked"
    made = f"{cal.n:,} labels of {cal.k:,} classes{wrong}"
    return f"Calibrated on {made}. Score: <code>{safe(repr(cal.score))}</code>."


def _cut(contents: Contents) -> str:
    """Return the meaning of the shade in the chart of coverage, where there is one."""
    if not contents.calibration.warnings or not np.any(contents.curve.outside):
        return ""
    return (
        " In the shade the estimate came out above 1 or below 0 and is cut off, which shows that the noise "
        "model is wrong; it need not be right elsewhere."
    )


def _promise(cal: Calibration) -> str:
    lines = [f"Guarantee: <code>{safe(repr(cal.guarantee))}</code>.", f"Assumed: {safe(cal.assumptions)}."]
    if cal.price_of_doubt:
        more = f"{cal.price_of_doubt:.2g} labels per set at alpha = {cal.alpha:g}"
        lines.append(f"Not knowing the noise exactly adds {more}.")
    return "".join(f"<p>{line}</p>" for line in lines)


def _comparison(contents: Contents) -> str:
    """Return the table of all guarantees, with the chosen one marked."""
    cal, rows, audited = contents.calibration, contents.comparison.rows, contents.comparison.audited
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
    mine = [cal.guarantee.name]
    if audited:
        mine.append("checked" if cal.guarantee.checked_alone else "checked, noisy")
    intro = f"With the same score, at alpha = {cal.alpha:g}."
    if not audited and cal.noise is not None and len(cal.noise.doubt.ends) > 1:
        intro += " Estimates are for that end of the interval of noise rates that needs the larger sets."
    made = table(header, written, lambda row: row[: len(mine)] == mine)
    return f"<p class='soft'>{intro}</p><div class='guarantees'>{made}</div>"


def _noise(contents: Contents, drawn: dict[str, charts.Chart]) -> str:
    """Return where the noise model comes from, whether it can be right, and what if it is wrong."""
    cal, found = contents.calibration, contents.sensitivity
    if cal.noise is None and cal.checked is None:
        return "<p>The labels are taken as they are.</p>"
    text = f"<p class='soft'>At alpha = {cal.alpha:g}.</p>"
    if cal.checked is not None:
        error = "" if not cal.deviation else f" ± {100 * cal.deviation / math.sqrt(cal.checked):.1f}%"
        text += (
            f"<p>No noise model is needed: the promise rests on {cal.checked:,} checked labels. At the "
            f"threshold they say that {100 * cal.estimate:.1f}%{error} of the true labels are in the sets."
            "</p>"
        )
        if contents.diagnosis is None:
            return text
        model = "The noise model that was given only helps to make these sets small. Taken by itself:"
        return f"{text}<p>{model}</p><p class='lines'>{safe(on_one_line(contents.diagnosis))}</p>"
    for name, said in (("Estimated", contents.estimate), ("Diagnosis", contents.diagnosis)):
        if said is not None:
            text += f"<p class='lines'><strong>{name}.</strong> {safe(on_one_line(said))}</p>"
    if found is None:
        return text
    caption = f"If the noise rate is {found.rate:.3g} in truth and another one is stated. {found.advice}."
    header = ["stated rate", "coverage in truth", "as believed", "labels per set"]
    rows = [
        [f"{row.rate:.3g}", f"{row.coverage:.4f}", f"{row.estimate:.4f}", f"{row.mean_size:.2f}"]
        for row in found.rows
    ]
    return (
        text
        + figure("sensitivity", drawn["sensitivity"].html + drawn["sensitivity-size"].html, caption)
        + "<details><summary>The same in numbers</summary>"
        + f"{box('scroll', 'Coverage by stated rate', table(header, rows))}</details>"
    )


def _samples(contents: Contents) -> str:
    label = "the true label" if contents.measured_on == "test" else "the given label, which may be wrong"
    marked = any(sample.label is not None for sample in contents.samples)
    items = "".join(_sample(contents, i, sample) for i, sample in enumerate(contents.samples))
    said = f"The likeliest labels first. {f'Framed: {label}.' if marked else ''}"
    return f"<p class='soft'>{said}</p><ul class='samples'>{items}</ul>"


def _sample(contents: Contents, i: int, sample: Shown) -> str:
    size = int(sample.sizes[contents.chosen])
    missing = ""
    if sample.label is not None:
        missing = (
            f"<span class='missing' data-place='{sample.place}'{' hidden' if size > sample.place else ''}>"
            f"Not in it: {safe(sample.label)}.</span>"
        )
    quote = "" if sample.description is None else f"<blockquote>{safe(sample.description)}</blockquote>"
    names = "".join(
        f"<li class='{'label' if label == sample.label else ''}{' out' if place >= size else ''}'>"
        f"{safe(label)} <span class='soft'>{_share(prob)}</span></li>"
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
            names[i],
            _share(found.coverage[i]),
            f"{_share(found.low[i])} to {_share(found.high[i])}",
            f"{found.count[i]:,}",
        ]
        for i in found.worst_first()
    ]
    unseen = cal.k - len(rows)
    counted = "one class" if unseen == 1 else f"{unseen:,} classes"
    left_out = f" Too few labels to say anything of {counted}." if unseen else ""
    printed = ""
    if len(rows) > PRINTED:
        printed = f"<p class='soft printed'>On paper: the worst {PRINTED} of {len(rows):,} classes.</p>"
    return (
        f"<p class='soft'>{how} At alpha = {cal.alpha:g}, the worst first. No coverage by class is promised."
        f"{left_out}</p>"
        "<div class='search'><label for='search'>Find a class </label>"
        "<input type='search' id='search'> <span id='found' class='soft' role='status'></span></div>"
        + box("tall", "Classes", table(["class", "coverage", "95% interval", "labels"], rows), "classes")
        + printed
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _share(value: float | Floats) -> str:
    return f"{100 * value:.1f}%" if value == 0 or value >= 0.0005 else "<0.1%"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _asset(name: str) -> str:
    return (resources.files("nacp.show.report") / name).read_text(encoding="utf-8")
