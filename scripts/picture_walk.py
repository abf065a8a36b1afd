"""Draw docs/report.png and the pictures of docs/your-own-data.md, as Chromium shows pages.

python examples/your_own_data.py FOLDER
python scripts/picture_walk.py FOLDER
"""

import csv
import html
import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "your-own-data"
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


def main() -> None:
    """Draw all pictures."""
    folder = Path(sys.argv[1]).resolve()
    path = folder / "table.html"
    path.write_text(table(folder), encoding="utf-8")
    photograph(path, "table.png", 900, 200)
    photograph(folder / "report.html", "report.png", 1000, 1190)
    photograph(folder / "report.html", "../report.png", 1000, 462)  # its top: the numbers and the promise


if __name__ == "__main__":
    main()
