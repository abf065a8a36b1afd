"""Imports at the top of a file point one way, as CONTRIBUTING.md lists the folders."""

import ast
from pathlib import Path

import nacp

SOURCE = Path(nacp.__file__).parent
# From the top layer to the lowest; modules that are not listed lie where `calibrate` does.
LAYERS = [
    {"cli", "paper", "show", "__init__", "__main__"},
    {"advice", "estimation", "labels", "stream"},
    {"calibrate"},
    {"guarantees"},
    {"coverage"},
    {"scores", "noise"},
    {"points"},
    {"engine"},
    {"coverage.grid", "stats", "errors", "checks", "wrapping", "_types"},
]


def layer_of(module):
    name = "coverage.grid" if module.startswith("coverage.grid") else module.split(".")[0]
    return next((i for i, names in enumerate(LAYERS) if name in names), 2)


def imported(path):
    """Yield the modules of nacp that a file imports when it is itself imported."""
    nodes = list(ast.parse(path.read_text(encoding="utf-8")).body)
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = node.module in ("nacp", "nacp.coverage")
            names = [f"{node.module}.{alias.name}" if package else node.module for alias in node.names]
        else:
            if isinstance(node, ast.Try):
                nodes += node.body
            continue
        yield from (name.removeprefix("nacp.") for name in names if name.startswith("nacp."))


def test_a_module_imports_from_its_own_layer_or_below():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        wrong += [(module, name) for name in imported(path) if layer_of(name) < layer_of(module)]
    assert not wrong
