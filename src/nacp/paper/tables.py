"""What the tables show: our results beside the paper's."""

import math
from collections.abc import Sequence
from itertools import groupby

from nacp.paper import printed
from nacp.paper.corrections import Correction
from nacp.paper.experiments import ALPHA, Experiment
from nacp.paper.results import Moments, Record
from nacp.paper.sheets import Sheet, Value

_VERSUS_PAPER = (
    "Diff: = where ours agrees with the paper's printed digits, else "
    "(ours - paper) / sqrt(sd² + sd²), the difference in standard deviations of one split."
)
_OTHER_NETWORKS = (
    "These are not the paper's networks, so its sizes stand beside ours for orientation only. Coverages are "
    "compared where the numbers of points and classes are the paper's."
)
_CORRECTIONS_READING = (
    "ACNL depends on how often the rarest class occurs among the noisy labels (rarest: mean, and least to "
    "most, over the draws). Diff: = where ours agrees with the printed digits, else the difference in "
    "standard deviations, or ≠ where there is none."
)
# What tells rows apart, in all CSV files by the same names.
_IDS = ("data", "simulated", "n", "k", "rate", "setting", "score", "method")


def deviation(ours: Moments, theirs: printed.Printed) -> str:
    """Return how far our mean is from a printed one, where that means something.

    Parameters
    ----------
    ours : Moments
        Mean and standard deviation over splits.
    theirs : Printed
        The same, as printed.

    Returns
    -------
    str
        "=" if the printed digits are the same, else the difference in standard deviations, or "≠" where there
        is none.

    Examples
    --------
    >>> from nacp.paper import printed
    >>> from nacp.paper.results import Moments
    >>> from nacp.paper.tables import deviation
    >>> paper = printed.CELLS["cifar100", "aps", "NACP"].size
    >>> paper.mean, paper.sd, deviation(Moments(9.04, 0.5), paper), deviation(Moments(8.0, 0.5), paper)
    (9.0, 0.46, '=', '-1.5')
    """
    if abs(ours.mean - theirs.mean) <= theirs.rounding * (1 + 1e-9):
        return "="
    deviations = _deviations(ours, theirs)
    return "≠" if deviations is None else f"{deviations:+.1f}"


def _deviations(ours: Moments, theirs: printed.Printed) -> float | None:
    """Return the difference of the means in standard deviations; None where there are none."""
    spread = math.hypot(ours.sd, theirs.sd)
    return (ours.mean - theirs.mean) / spread if spread > 0 else None


def splits_sheet(experiment: Experiment, records: Sequence[Record], origin: list[str]) -> Sheet:
    """Return the table of an experiment: one section for each data set.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    records : sequence of Record
        What came out.
    origin : list of str
        How it was made.

    Examples
    --------
    >>> from nacp.paper.experiments import Experiment
    >>> from nacp.paper.tables import splits_sheet
    >>> splits_sheet(Experiment("nothing", "Nothing", []), [], []).sections
    []
    """
    notes = _Notes()
    columns = [
        "setting", "score", "method", "Δ", "size", "paper", "diff", "coverage %", "paper", "diff", "below %",
    ]  # fmt: skip
    sections = []
    for source, group in groupby(records, key=lambda record: record.setting.source):
        of_source = list(group)
        n, k = of_source[0].n, of_source[0].k
        points = f", n = {n:,}" if all(record.n == n for record in of_source) else ""
        sections.append((f"{source.title}: k = {k:,}{points}", [_row(r, notes) for r in of_source]))
    kept = [j for j in range(len(columns)) if any(row[j] for _, rows in sections for row in rows)]
    splits = max((setting.splits for setting in experiment.settings), default=0)
    reading = (
        f"Mean ± standard deviation over {splits:,} random splits. "
        f"Below: the share of splits with a coverage of less than {1 - ALPHA:.0%}."
    )
    foreign = experiment.versus_paper and any(s.source.path is not None for s in experiment.settings)
    return Sheet(
        experiment.title,
        [columns[j] for j in kept],
        [(heading, [[row[j] for j in kept] for row in rows]) for heading, rows in sections],
        [
            reading,
            *([_VERSUS_PAPER] if experiment.versus_paper else []),
            *([_OTHER_NETWORKS] if foreign else []),
            *notes.texts(),
        ],
        origin,
        [_plain(record) for record in records],
    )


def _row(record: Record, notes: "_Notes") -> list[str]:
    setting, paper = record.setting, record.printed
    cells = ["", "", "", ""]
    if paper is not None:
        same_size, same_coverage = _comparable(record)
        mark = notes.mark(printed.doubt(setting.source.printed_as, setting.score, record.method))
        cells = [
            paper.size.text,
            deviation(record.size, paper.size) if same_size else "",
            paper.coverage.text + mark,
            deviation(record.coverage, paper.coverage) if same_coverage else "",
        ]
    return [
        setting.label,
        setting.score.upper(),
        record.method,
        _correction(record.correction),
        _pair(*record.size),
        *cells[:2],
        _pair(*record.coverage),
        *cells[2:],
        f"{record.below:.1f}",
    ]


def _comparable(record: Record) -> tuple[bool, bool]:
    """Return whether a size and a coverage should be the paper's."""
    twin = record.setting.source.path is None
    paper = printed.CORRECTIONS.get(record.setting.source.printed_as)
    return twin, twin or (paper is not None and (paper.n, paper.k) == (record.n, record.k))


def _plain(record: Record) -> dict[str, Value]:
    setting, paper = record.setting, record.printed
    source, n, k = setting.source, record.n, record.k
    rate = setting.noise.uniform_rate(k)
    ids = (source.name, source.path is None, n, k, rate, setting.label, setting.score, record.method)
    plain: dict[str, Value] = dict(zip(_IDS, ids, strict=True)) | {
        "splits": setting.splits,
        "correction": record.correction,
        "size": record.size.mean,
        "size_sd": record.size.sd,
        "coverage": record.coverage.mean,
        "coverage_sd": record.coverage.sd,
        "below": record.below,
    }
    if paper is not None:
        same_size, same_coverage = _comparable(record)
        plain |= {
            "paper_size": paper.size.mean,
            "paper_size_sd": paper.size.sd,
            "size_diff_sd": _deviations(record.size, paper.size) if same_size else None,
            "paper_coverage": paper.coverage.mean,
            "paper_coverage_sd": paper.coverage.sd,
            "coverage_diff_sd": _deviations(record.coverage, paper.coverage) if same_coverage else None,
            "doubt": printed.doubt(source.printed_as, setting.score, record.method) or "",
        }
    return plain


def corrections_sheet(title: str, rows: Sequence[Correction], origin: list[str]) -> Sheet:
    """Return the table of corrections.

    Parameters
    ----------
    title : str
        Of the table.
    rows : sequence of Correction
        What came out.
    origin : list of str
        How it was made.

    Examples
    --------
    >>> from nacp.paper.corrections import table2
    >>> from nacp.paper.experiments import Run
    >>> from nacp.paper.tables import corrections_sheet
    >>> corrections_sheet("Table 2", table2(Run(splits=2)), []).sections[0][1][0]
    ['0.1', 'NACP', '0.0352', '0.035', '=', '']
    """
    notes = _Notes()
    one_n = all(len({row.n for row in group}) == 1 for _, group in groupby(rows, key=lambda row: row.title))
    columns = ["ε" if one_n else "n", "method", "Δ", "paper", "diff", "rarest"]
    sections = []
    for heading, group in groupby(rows, key=lambda row: row.title):
        of_heading = list(group)
        if one_n:
            heading = f"{heading}: n = {of_heading[0].n:,}, k = {of_heading[0].k:,}"
        lines = []
        for row in of_heading:
            mean, least, most = row.rarest
            paper = _printed_correction(row)
            lines.append(
                [
                    f"{row.rate:g}" if one_n else f"{row.n:,}",
                    row.method,
                    _correction(row.value.mean) + (f" ± {row.value.sd:.4f}" if row.value.sd > 0 else ""),
                    (row.printed or "") + notes.mark(row.doubt),
                    "" if paper is None else deviation(row.value, paper),
                    f"{mean:.1f} ({least:.0f} to {most:.0f})" if row.method == "ACNL" else "",
                ]
            )
        sections.append((heading, lines))
    kept = [j for j in range(len(columns)) if any(line[j] for _, lines in sections for line in lines)]
    return Sheet(
        title,
        [columns[j] for j in kept],
        [(heading, [[line[j] for j in kept] for line in lines]) for heading, lines in sections],
        [_CORRECTIONS_READING, *notes.texts()],
        origin,
        [_plain_correction(row) for row in rows],
    )


def _printed_correction(row: Correction) -> printed.Printed | None:
    if row.printed is None:
        return None
    return printed.Printed(float(row.printed), 0.0, 0.5 * 10.0 ** -len(row.printed.partition(".")[2]))


def _plain_correction(row: Correction) -> dict[str, Value]:
    source, paper = row.source, _printed_correction(row)
    data, simulated = ("", None) if source is None else (source.name, source.path is None)
    ids = (data, simulated, row.n, row.k, row.rate, "", "", row.method)
    return dict(zip(_IDS, ids, strict=True)) | {
        "correction": row.value.mean,
        "correction_sd": row.value.sd,
        "rarest": row.rarest[0],
        "rarest_least": row.rarest[1],
        "rarest_most": row.rarest[2],
        "paper_correction": row.printed or "",
        "correction_diff_sd": None if paper is None else _deviations(row.value, paper),
        "doubt": row.doubt or "",
    }


class _Notes:
    """Footnotes, each with a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str | None) -> str:
        if text is None:
            return ""
        return f" [{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    def texts(self) -> list[str]:
        return [f"[{number}] {text}" for text, number in self._numbers.items()]


def _pair(mean: float, sd: float) -> str:
    return f"{mean:.2f} ± {sd:.2f}"


def _correction(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "∞"
