"""The configuration of Sphinx (`make docs`). Neither the build nor the pages need the network."""

import html
import re
import subprocess
import sys
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS

import nacp

project = "nacp"
author = "The nacp developers"
copyright = author
release = version = nacp.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_generated/command-line.md", "jupyter_execute"]
templates_path = ["_templates"]
nitpicky = True
# Bare names in docstrings may be parameters and fields, which have no page to link to. Neither have names of
# other packages.
nitpick_ignore_regex = [("py:obj", r"[a-z_]+|(numpy|matplotlib|sklearn)\..+")]

html_theme = "furo"
html_title = f"nacp {release}"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]

# Links such as page.md#a-heading work as they do on a git host.
myst_heading_anchors = 3

# The docstrings state the types; every name of the package in them becomes a link.
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "inherited-members": "BaseEstimator, BaseException, tuple"}
autodoc_member_order = "bysource"
default_role = "autolink"
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_aliases = {name: f"nacp.{name}" for name in nacp.__all__}
numpydoc_xref_ignore = "all"
DEFAULT_LINKS.clear()  # links to pages of Python and NumPy, which need the network

# Notebooks are run during the build; an error in one is an error of the build.
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

# Copy commands and code without prompts and output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Examples contain options such as --noise, and quoted names of guarantees.
smartquotes = False

# Files outside this folder that are pages here, under another name; on a git host links lead to the files.
OUTSIDE = {"CHANGELOG.md": "changelog.md"}


def with_scripts(text):
    """Return text with subscripts and superscripts, such as F^c and C_{q}, as HTML."""
    for _ in range(2):  # braces within braces
        text = re.sub(r"(?<=\S)_\{([^{}]*)\}", r"<sub>\1</sub>", text)
    text = re.sub(r"(?<=\S)\^(?:\{([^{}]*)\}|\(([^()]*)\))", r"<sup>\1\2</sup>", text)
    text = re.sub(r"(?<=\w)_([^\W_]+)", r"<sub>\1</sub>", text).replace("_*", "<sub>&#42;</sub>")
    return re.sub(r"(?<=\S)\^([^\W_]+)", r"<sup>\1</sup>", text)


def typeset(text):
    """Return the source of a page of proofs with HTML for its formulas: indented blocks, scripts in prose."""

    def formula(block):
        lines = [with_scripts(html.escape(line.strip())) for line in block[0].splitlines()]
        text = re.sub(" {3,}", "&emsp;&emsp;", "<br>".join(lines))
        return f'<div class="formula">{text}</div>\n'

    text = re.sub(r"^(?: {4}.+\n)+", formula, text, flags=re.MULTILINE)
    parts = re.split(r"(<div.*</div>|`[^`]*`|\[[^\]]*\.py\]\([^)]*\)|\]\([^)]*\))", text)
    return "".join(part if i % 2 else with_scripts(part) for i, part in enumerate(parts))


def prepare(app, docname, source):
    """Point links to files outside this folder at the pages that include them; tidy blocks of examples."""
    if docname == "theory" or docname.startswith("guarantees"):
        source[0] = typeset(source[0])
    for file, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({'../' * (docname.count('/') + 1)}{file})", f"](/{page})")
    # This file has no page here; a link to it works on a git host only.
    source[0] = re.sub(r"\[([^\]]+)\]\((?:\.\./)+SECURITY\.md\)", r"\1", source[0])
    # The empty line that ends an example's output.
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def only_ours(app, what, name, obj, skip, options):
    """Leave out what scikit-learn and named tuples add to a class."""
    home = getattr(getattr(obj, "func", obj), "__module__", None) or "nacp"
    return skip or not home.startswith("nacp") or type(obj).__name__ == "_tuplegetter"


def as_block(examples):
    """Return examples of commands, a paragraph each, as one block."""
    commands = "\n".join(re.findall(r"\[cyan\](.*)\[/cyan\]", examples[1]))
    return f"**Examples**:\n\n```console\n{commands}\n```\n\n"


def with_whole_summaries(text):
    """Return the help with the summaries in its lists of commands, which Typer cuts off, in full length."""
    summaries = dict(re.findall(r"^#+ `([^`]+)`\n\n(.+?)\n\n", text, re.MULTILINE | re.DOTALL))
    group = ""

    def whole(line):
        nonlocal group
        if line[2]:
            group = line[2]
            return line[0]
        return f"* `{line[3]}`: {' '.join(summaries[f'{group} {line[3]}'].split())}"

    return re.sub(r"^(?:(#+ `([^`]+)`)|\* `(\w+)`: .*\.\.\.)$", whole, text, flags=re.MULTILINE)


def describe_commands():
    """Write the help texts of the commands as Markdown, for command-line.md."""
    command = [sys.executable, "-m", "typer", "nacp.cli", "utils", "docs", "--name", "nacp"]
    text = subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout
    # Typer leaves the examples at the end of a command's help as they are, with their markup.
    text = re.sub(r"\[bold\]Examples\[/bold\]\n\n((?:\[cyan\]\$ .*\n+)+)", as_block, text)
    text = with_whole_summaries(text)
    generated = Path(__file__).parent / "_generated"
    generated.mkdir(exist_ok=True)
    (generated / "command-line.md").write_text(text, encoding="utf-8")


def setup(app):
    """Connect the above."""
    describe_commands()
    app.connect("source-read", prepare)
    app.connect("autodoc-skip-member", only_ours)
