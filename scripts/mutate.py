"""Change the library one operator or constant at a time, and see whether the fast tests notice.

A mutant of a module is killed if a test fails that imports the module or lies in the folder that mirrors its
own. The tests run on the NumPy engine, on a copy of the sources. Survivors are printed as differences: a test
is missing, or the change makes no difference.

    python scripts/mutate.py --sample 200 scores coverage guarantees stats groups audit calibrate.py
"""

import argparse
import ast
import difflib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def sites(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes that can be changed, in order, with the field that changes; no annotations."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if type(child) in OTHER:
                yield tree, name
            elif isinstance(child, ast.Constant) and isinstance(child.value, int | float):
                yield child, "value"
            elif isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not | ast.USub):
                yield child, "op"
            if isinstance(child, ast.AST):
                yield from sites(child)


def mutate(node: ast.AST, name: str) -> None:
    """Change a node."""
    value = getattr(node, name)
    if isinstance(node, ast.Constant):
        node.value = not value if isinstance(value, bool) else value + 1
    elif isinstance(node, ast.UnaryOp):
        node.operand = ast.UnaryOp(value, node.operand)
    elif isinstance(value, list):  # of a chain of comparisons the first one changes
        value[0] = OTHER[type(value[0])]()
    else:
        setattr(node, name, OTHER[type(value)]())


def mutant(text: str, number: int) -> tuple[str, str]:
    """Return the source of a module and of one of its mutants, both without comments."""
    tree = ast.parse(text)
    before = ast.unparse(tree)
    mutate(*list(sites(tree))[number])
    return before, ast.unparse(tree)


def tests_of(module: Path) -> list[str]:
    """Return the tests that import a module or have its name, and then those beside them."""
    name = ".".join(["nacp", *module.with_suffix("").parts])
    parent, _, last = name.rpartition(".")
    line = re.compile(rf"^(from {name} import|import {name}|from {parent} import .*\b{last}\b)", re.MULTILINE)
    tests = [*(ROOT / "tests").rglob("test_*.py")]
    named = {each for each in tests if line.search(each.read_text()) or each.name == f"test_{module.name}"}
    beside = {each for each in tests if each.parent == ROOT / "tests" / module.parent != ROOT / "tests"}
    return [*map(str, sorted(named)), *map(str, sorted(beside - named))]


def is_killed(folder: Path, module: Path, seconds: float) -> bool | None:
    """Run the tests on the mutant in a folder; None if they take too long."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *tests_of(module),
    ]
    env = os.environ | {"PYTHONPATH": str(folder), "NACP_ENGINE": "numpy", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode in (1, 2)  # 2: the mutant cannot be imported


def main() -> None:
    """Try a random sample of all mutants."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="+", help="folders or files below src/nacp")
    parser.add_argument("--sample", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=300, help="the most that the tests of a mutant may take"
    )
    options = parser.parse_args()
    package = ROOT / "src" / "nacp"
    files = [
        file
        for name in options.modules
        for file in sorted([package / name] if name.endswith(".py") else (package / name).glob("*.py"))
    ]
    every = [(file, i) for file in files for i in range(len(list(sites(ast.parse(file.read_text())))))]
    chosen = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path) / "src"
        shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
        for file, number in chosen:
            module, text = file.relative_to(package), file.read_text()
            before, after = mutant(text, number)
            (folder / "nacp" / module).write_text(after)
            killed = is_killed(folder, module, options.seconds)
            (folder / "nacp" / module).write_text(text)
            found["undecided" if killed is None else "killed" if killed else "survived"] += 1
            print(dict(found), file=sys.stderr, flush=True)
            if not killed:
                lines = difflib.unified_diff(
                    before.splitlines(), after.splitlines(), str(module), "mutant", "", "", 1, ""
                )
                print("undecided:" if killed is None else "survived:", *lines, sep="\n", flush=True)
    print(f"{sum(found.values())} of {len(every):,} mutants:", dict(found))


if __name__ == "__main__":
    main()
