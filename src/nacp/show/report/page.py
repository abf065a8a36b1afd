"""A report as one HTML page that needs nothing from the network."""

import json
import math
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from nacp.advice.comparison import CHECKED
from nacp.calibration import Calibration
from nacp.guarantees import Guarantee
from nacp.scores import Score
from nacp.show.report import charts, groups
from nacp.show.report.contents import Contents, Shown, Step
from nacp.show.report.markup import box, paragraph, safe, sentence, share, table
from nacp.versions import __version__
from nacp.wrapping import counted, on_one_line

PRINTED = 20  # classes that are listed on paper, as in page.css
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e"})


def render(contents: Contents, title: str) -> str:
    """Return the page."""
    cal = contents.calibration
    steps: list[dict[str, Any]] = [
        {
            "texts": _texts(contents, step),
            "marks": charts.moved(contents, step),
            "samples": [int(step.sizes[sample.row]) for sample in contents.samples],
        }
        for step in contents.steps
    ]
    drawn = {"coverage": charts.coverage_chart(contents), "tradeoff": charts.tradeoff_chart(contents)}
    data = {"steps": steps, "plots": {name: chart.hover for name, chart in drawn.items()}}
    parts = {
        "title": safe(title),
        "opening": _opening(cal),
        "banner": "".join(
            f"<p class='banner' role='alert'>{safe(sentence(each))}</p>" for each in cal.warnings
        ),
        "chosen": str(contents.chosen),
        "last": str(len(contents.steps) - 1),
        "promised": "What would be promised if the assumptions held" if cal.warnings else "The promise",
        "promise_look": "soft" if cal.warnings else "promise",
        "assumptions": _assumptions(cal),
        "coverage_chart": drawn["coverage"].html,
        "tradeoff_chart": drawn["tradeoff"].html,
        "sizes_chart": charts.sizes_chart(contents),
        "whose": contents.measured_on,
        "comparison": _comparison(contents),
        "noise": _noise(contents),
        "groups": "" if contents.groups is None else groups.section(contents.groups),
        "samples": _samples(contents),
        "classes": _classes(contents),
        "version": safe(__version__),
        # Inside a script element, "</script>" would end it.
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_ESCAPES),
        "css": _asset("page.css"),
        "js": _asset("page.js"),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _asset("page.html"))
    # What the slider moves is there without a script, too, for the alpha that was asked for.
    texts, marks, _ = steps[contents.chosen].values()
    page = re.sub(r'(data-text="(\w+)"[^>]*>)', lambda place: place[1] + safe(texts[place[2]]), page)
    return re.sub(r'data-mark="(\w+)"', lambda place: f"{place[0]} {_style(marks[place[1]])}", page)


def _style(place: Mapping[str, str] | None) -> str:
    """Return the attribute that puts a mark in its place, or hides it."""
    return "hidden" if place is None else f"style='{';'.join(map(':'.join, place.items()))}'"


def _texts(contents: Contents, step: Step) -> dict[str, str]:
    """Return the texts that the slider changes."""
    cal, m, empty = step.calibration, len(step.sizes), int((step.sizes == 0).sum())
    texts = {
        "alpha": f"{cal.alpha:g}",
        "asked": f"{100 * (1 - cal.alpha):.6g}%",
        "estimate": share(cal.estimate),
        "size": f"{step.mean_size:.2f}",
        "threshold": _threshold(cal.threshold),
        "promise": sentence(cal.promise),
        "obstacle": sentence(f"The sets hold all classes: {cal.obstacle}") if cal.obstacle else "",
        "note": sentence(cal.note) if cal.note else "",
        **dict.fromkeys(("excess", "tested", "error", "end", "interval", "empty"), ""),
    }
    if cal.obstacle is None and (cal.guarantee.promises_truth or cal.guarantee.only_as_given):
        texts["excess"] = (
            "The excess, by which the estimated coverage is above the target, is "
            f"{100 * cal.excess:.1f} percentage points."
        )
    if step.coverage is not None:
        texts["tested"] = share(step.coverage)
        error = math.sqrt(step.coverage * (1 - step.coverage) / m)
        texts["error"] = f"standard error {share(error)}, {m:,} points"
    if cal.warnings:
        texts["end"] = "if the assumptions held"
    elif step.rate is not None:
        texts["end"] = f"for a noise rate of {step.rate:.4g}"
        texts["interval"] = (
            f"The noise rate is known up to an interval. The estimated coverage is for {step.rate:.4g}, the "
            "end of the interval that needs the larger sets."
        )
    if empty:
        are = "is" if empty == 1 else "are"
        texts["empty"] = (
            f"{counted(empty, 'set')} of {m:,} {are} empty: for these points not even the most probable "
            "label is below the threshold. The promise allows that, since the other sets cover enough. Look "
            "at these points, or predict with allow_empty=False (--no-allow-empty), which puts the most "
            "probable label into the set."
        )
    counts = contents.histogram(step)
    for j, count in enumerate(counts.tolist()):
        texts[f"count{j}"] = f"{count:,}" if counts[j:].any() else ""  # bars without a number are hidden
    for j, sample in enumerate(contents.samples):
        size = int(step.sizes[sample.row])
        more, missing = size - len(sample.labels), sample.label is not None and size <= sample.place
        texts[f"size{j}"] = counted(size, "label")
        texts[f"more{j}"] = f"and {more:,} more" if more > 0 else ""
        texts[f"missing{j}"] = f"Not in it: {sample.label}." if missing else ""
    said = "alpha {alpha}: estimated coverage {estimate}, {size} labels per set, threshold {threshold}"
    return texts | {"spoken": said.format(**texts)}


def _threshold(threshold: float) -> str:
    """Return a threshold with four digits, or with more close to 1, where scores of many classes crowd."""
    digits = 6 if 0.999 < threshold < 1 else 4
    return "none" if math.isinf(threshold) else f"{threshold:.{digits}g}"


def _named(member: Score | Guarantee) -> str:
    """Return the name of a score or a guarantee, with its options."""
    name, _, options = repr(member).removesuffix(")").partition("(")
    return f"{name} with {options}" if options else name


def _opening(cal: Calibration) -> str:
    wrong = "" if cal.noise is None else ", some of them wrong"
    if cal.checked is not None:
        wrong = f", {cal.checked:,} of them checked"
    made = f"{cal.n:,} labels of {cal.k:,} classes{wrong}"
    return f"Calibrated on {made}. Score: {safe(_named(cal.score))}."


def _assumptions(cal: Calibration) -> str:
    items = "".join(f"<li>{safe(each)}</li>" for each in cal.assumptions.split("; "))
    said = f"<p>Guarantee: {safe(_named(cal.guarantee))}. Assumed:</p><ul>{items}</ul>"
    if not cal.price_of_doubt:
        return said
    more = f"{cal.price_of_doubt:.2g} labels larger on average at alpha = {cal.alpha:g}"
    return said + paragraph(f"Because the noise is not known exactly, sets are {more}.")


def _comparison(contents: Contents) -> str:
    """Return the table of all guarantees, with the chosen one marked."""
    cal, found = contents.calibration, contents.comparison
    (header, *rows), _, _ = found.tables[0]
    written = [
        [*cells, sentence(row.said(found.audited))] for cells, row in zip(rows, found.rows, strict=True)
    ]
    mine = [cal.guarantee.name]
    if found.audited:
        mine.append("checked" if cal.guarantee.checked_alone else CHECKED)
    intro = f"With the same score, at alpha = {cal.alpha:g}. Mean size: labels per set."
    if not found.audited and cal.noise is not None and len(cal.noise.doubt.ends) > 1:
        intro += " Estimates are for that end of the interval of noise rates that needs the larger sets."
    made = table([*header, "what it says"], written, lambda row: row[: len(mine)] == mine)
    return f"{paragraph(intro, 'soft')}<div class='guarantees'>{made}</div>"


def _noise(contents: Contents) -> str:
    """Return where the noise model comes from, whether it can be right, and what if it is wrong."""
    cal, found = contents.calibration, contents.sensitivity
    if cal.noise is None and cal.checked is None:
        return paragraph("The labels are taken as they are.")
    text = paragraph(f"At alpha = {cal.alpha:g}.", "soft")
    if cal.checked is not None:
        text += paragraph(
            f"No noise model is needed: the promise rests on {cal.checked:,} checked labels. At the "
            f"threshold they say that {share(cal.estimate)} of the true labels are in the sets."
        )
        if contents.diagnosis is None:
            return text
        text += paragraph("The noise model only helps to make these sets small. Taken by itself:")
    for name, said in (("Estimated", contents.estimate), ("Diagnosis", contents.diagnosis)):
        if said is not None:
            text += f"<p class='lines'><strong>{name}.</strong> {safe(on_one_line(said))}</p>"
    if found is None or cal.warnings or (contents.diagnosis is not None and contents.diagnosis.rejected):
        return text  # rates are compared under the model, which must not be wrong otherwise
    ((header, *rows), _, _), ((_, advice),) = found.tables[0], found.sentences
    made = box("scroll", "Rates", table(header, rows, lambda row: row[0] == f"{found.rate:.4g}"))
    advice += " Sizes are those of the calibration points."
    return f"{text}<h3>What if the noise rate is wrong?</h3>{paragraph(advice)}{made}"


def _samples(contents: Contents) -> str:
    label = "the true label" if contents.measured_on == "test" else "the given label, which may be wrong"
    marked = any(sample.label is not None for sample in contents.samples)
    items = "".join(_sample(contents, j, sample) for j, sample in enumerate(contents.samples))
    said = f"The most probable labels first. {f'Framed: {label}.' if marked else ''}"
    return f"{paragraph(said, 'soft')}<ul class='samples'>{items}</ul>"


def _sample(contents: Contents, j: int, sample: Shown) -> str:
    size = contents.steps[contents.chosen].sizes[sample.row]
    quote = "" if sample.description is None else f"<blockquote>{safe(sample.description)}</blockquote>"
    name = f"row {sample.row:,}" if sample.id is None else safe(sample.id)
    names = "".join(
        f"<li class='{'label' if label == sample.label else ''}{' out' if place >= size else ''}'>"
        f"{safe(label)} <span class='soft'>{share(prob)}</span></li>"
        for place, (label, prob) in enumerate(zip(sample.labels, sample.probs.tolist(), strict=True))
    )
    return (
        f"<li data-sample='{j}'><span class='soft'>{name}: "
        f'<span data-text="size{j}"></span></span>{quote}<ul class="set">{names}</ul>'
        f'<span class="soft" data-text="more{j}"></span><span data-text="missing{j}"></span></li>'
    )


def _classes(contents: Contents) -> str:
    found, cal = contents.classes, contents.calibration
    how = (
        "Estimated from the noisy labels of the calibration points and the noise model, with approximate "
        "intervals."
    )
    if contents.tested:
        how = f"Measured on {contents.tested:,} test points with true labels, with exact intervals."
    elif cal.checked is not None:
        how = f"Measured on {int(found.count.sum()):,} checked points, a random sample, with exact intervals."
    elif cal.noise is None:
        how = "Measured on the calibration points, with exact intervals."
    names = cal.classes or range(cal.k)
    rows = [
        [
            names[i],
            share(found.coverage[i]),
            f"{share(found.low[i])} to {share(found.high[i])}",
            f"{found.count[i]:,}",
        ]
        for i in found.worst_first()
    ]
    said = f"{how} At alpha = {cal.alpha:g}, the worst first. No coverage by class is promised."
    if len(rows) < cal.k:
        unseen = cal.k - len(rows)
        said += f" Too few labels to say anything of {'one class' if unseen == 1 else f'{unseen:,} classes'}."
    printed = f"On paper: the worst {PRINTED} of {len(rows):,} classes." if len(rows) > PRINTED else ""
    return (
        f"{paragraph(said, 'soft')}<div class='search'><label for='search'>Find a class </label>"
        "<input type='search' id='search'> <span id='found' class='soft' role='status'></span></div>"
        + box("tall", "Classes", table(["class", "coverage", "95% interval", "labels"], rows), "classes")
        + paragraph(printed, "soft printed")
    )


def _asset(name: str) -> str:
    return (resources.files("nacp.show.report") / name).read_text(encoding="utf-8")
