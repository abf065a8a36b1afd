"""Draw docs/report.png and the pictures of docs/your-own-data.md: a table, a terminal, the report, in Chromium.

python examples/your_own_data.py FOLDER
python scripts/picture_walk.py FOLDER
"""

import csv
import html
import shlex
import subprocess
import sys
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "your-own-data"
SHOWN = [
    "nacp calibrate points.csv points.csv:label --clean points.csv:checked -o cal.json",
    "nacp diagnose guess.json points.csv points.csv:label --clean points.csv:checked",
]
STYLE = """body {margin: 12px; font: 14px sans-serif; background: white} table {border-collapse: collapse}
td, th {border: 1px solid #ccc; padding: 4px 9px} th {background: #eef1f5; text-align: left}
td.number {text-align: right; font-variant-numeric: tabular-nums}"""


def photograph(page: Path, name: str, width: int, height: int) -> None:
    """Take a screenshot of a page, with few colours, so that the file is small."""
    target = PICTURES / name
    subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--virtual-time-budget=5000",
            f"--window-size={width},{height}",
            f"--screenshot={target}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )
    Image.open(target).convert("RGB").quantize(64).save(target, optimize=True)


def table(folder: Path, rows: int = 6) -> str:
    """Return the first rows of points.csv as a spreadsheet would show them."""
    with open(folder / "points.csv", newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    kept = [0, 1, 2, 3, None, len(header) - 3, len(header) - 2, len(header) - 1]

    def cell(line: list[str], place: int | None) -> str:
        return "…" if place is None else line[place]

    def number(text: str) -> str:
        return (
            f"<td class=number>{float(text):.4f}</td>"
            if text[:1].isdigit()
            else f"<td>{html.escape(text)}</td>"
        )

    head = "".join(f"<th>{html.escape(cell(header, place))}</th>" for place in kept)
    body = "".join(
        "<tr>" + "".join(number(cell(line, place)) for place in kept) + "</tr>" for line in lines[:rows]
    )
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><table><tr>{head}</tr>{body}</table>"


def terminal(folder: Path) -> str:
    """Return the terminal output of some commands as an HTML page."""
    console = Console(record=True, width=86, file=open("/dev/null", "w"))  # noqa: SIM115
    for command in SHOWN:
        said = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)], cwd=folder, text=True, capture_output=True
        ).stdout
        console.print(Text(f"$ {command}", "bold green"))
        console.print(Text(said))
    svg = console.export_svg(title="nacp")
    return f"<!doctype html><meta charset=utf-8><style>body{{margin:0}} svg{{width:900px}}</style>{svg}"


def main() -> None:
    """Draw all pictures."""
    folder = Path(sys.argv[1]).resolve()
    for name, page, size in (
        ("table", table(folder), (900, 200)),
        ("terminal", terminal(folder), (900, 552)),
    ):
        path = folder / f"{name}.html"
        path.write_text(page, encoding="utf-8")
        photograph(path, f"{name}.png", *size)
    photograph(folder / "report.html", "report.png", 1000, 1190)
    photograph(folder / "report.html", "../report.png", 1000, 640)  # its top: the numbers and the promise


if __name__ == "__main__":
    main()
