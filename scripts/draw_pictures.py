"""Draw the pictures of the documentation: run the examples of its pages, and save what they draw.

    python scripts/draw_pictures.py [PAGE ...]

A page shows a picture below the example that draws it. So each picture is what the lines above it give. Run
this again when they change. Needs the extras of the pages: ``nacp[plot,sklearn,torch]``.
"""

import contextlib
import doctest
import io
import re
import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

DOCS = Path(__file__).parent.parent / "docs"
PICTURE = re.compile(r"!\[[^\]]*\]\(([\w./-]*pictures/[\w-]+\.png)\)")


def draw(page: Path) -> None:
    """Run the examples of a page from top to bottom, and save the figure that is current at each picture."""
    parts = PICTURE.split(page.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for text, picture in zip(parts[::2], [*parts[1::2], None], strict=True):
        if picture is None:
            break
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for example in doctest.DocTestParser().get_examples(text):
                exec(compile(example.source, str(page), "single"), names)
        path = (page.parent / picture).resolve()
        path.parent.mkdir(exist_ok=True)
        pyplot.gcf().savefig(path, dpi=110)
        pyplot.close("all")
        print(f"{path.relative_to(DOCS.parent)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    pages = [Path(name) for name in sys.argv[1:]] or sorted(DOCS.rglob("*.md"))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if PICTURE.search(text) and ">>> " in text:
            draw(page)
