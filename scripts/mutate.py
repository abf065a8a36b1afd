"""Change the library one operator or constant at a time, and see whether the fast tests notice.

First the fast tests run on a copy of the repository, with a record of which test executes which line, which
takes some minutes. On each mutant run tests that execute the changed line, for twenty seconds at most: the
fastest of twelve functions, those of the folder of tests that mirrors the module's, then others. They run in
a fork of a process that has imported NumPy and other packages, but not nacp. A mutant is killed if a test
fails or takes ten times as long as usual. A line that runs when its module is imported concerns all tests of
the module. Messages of exceptions, annotations, decorators, abstract methods, ``strict=``, and constants that
only set speed, memory or precision are not changed. The sample has the same share of the mutants of each
argument. Survivors are printed as differences: a test is missing, or the change does not matter.

    python scripts/mutate.py --sample 500 scores coverage guarantees stats groups audit calibrate.py
"""

import argparse
import ast
import difflib
import gc
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import coverage
import numpy as np
import pytest
from scipy.stats import binomtest

ROOT = Path(__file__).parents[1]
SLOWER, EXTRA, MEMORY = 10, 5, 8 * 2**30  # a test may take ten times as long as usual and 5 seconds
FIRST, SECONDS = 12, 20  # so many tests run first, as most mutants need no others; then others, as long
PACKAGES = "dask.array matplotlib.pyplot pandas pyarrow.parquet rich.console scipy.stats sklearn torch typer"
_CHECKS = ("repr", "strict")  # named arguments that only matter for printing, or if nacp is wrong elsewhere
# Constants that do not decide anything, as they are assigned, and what they set.
TUNING = {
    "_ROWS, _PRODUCT_MAX": "speed: blocks of cells (stats/strata.py)",
    "_SLACK, _MOST_CELLS, _SHARES": "precision: the number of cells (stats/strata.py)",
    "_CLOSE": "precision: the cutoff (stats/strata.py)",
    "_STEPS, _DEVIATIONS": "precision: the steps of an integral (stats/tails.py)",
    "_HALVINGS": "precision: the steps of a bisection (stats/tails.py)",
    "_CHUNK": "memory: numbers that are processed together (stats/alarm.py)",
    "_TABLE_SIZE_MAX": "memory: which weights are tabulated (coverage/tally.py)",
    "_BATCH_SHARES": "memory: shares in one batch (guarantees/pac.py)",
    "_BATCH_ROWS_MIN": "speed: rows in one batch (guarantees/pac.py)",
    "_COUNTED": "memory: whether a histogram is counted in one pass (groups/class_curve.py)",
    "_SAMPLED": "precision: points that determine a standard deviation (guarantees/base.py)",
}
_PAIRS = "Add Sub, Mult Div, Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, And Or, BitAnd BitOr"
OTHER: dict[type[ast.AST], type[ast.AST]] = {ast.Pow: ast.Mult, ast.FloorDiv: ast.Div}
for one, other in map(str.split, _PAIRS.split(",")):
    OTHER |= {getattr(ast, one): getattr(ast, other), getattr(ast, other): getattr(ast, one)}


def sites(tree: ast.AST) -> Iterator[tuple[Any, str]]:
    """Yield the nodes that can be changed, in order, with the field that changes."""
    decorators = {*map(ast.unparse, getattr(tree, "decorator_list", ()))}
    if isinstance(tree, ast.Raise) or decorators & {"overload", "abstractmethod"}:
        return
    if isinstance(tree, ast.Assign) and ast.unparse(tree.targets[0]).strip("()") in TUNING:
        return
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or getattr(tree, "arg", "") in _CHECKS:
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


def mutate(node: Any, name: str) -> None:
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


def mutant(text: str, number: int) -> tuple[str, str, int]:
    """Return the source of a module and of one of its mutants, both without comments, and the line."""
    tree = ast.parse(text)
    before = ast.unparse(tree)
    node, name = list(sites(tree))[number]
    mutate(node, name)
    return before, ast.unparse(tree), node.lineno


# Running tests


class Tests:
    """A plugin of pytest that runs some tests in order, or else all, and measures how long they take."""

    def __init__(self, order: list[str], usual: dict[str, float], begin: Callable[[str], Any] = str) -> None:
        self.order, self.usual, self.begin = order, usual, begin
        self.taken: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.order:
            found = {each.nodeid: each for each in items}
            items[:] = [found[each] for each in self.order if each in found]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.begin(item.nodeid)
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, EXTRA + SLOWER * self.usual.get(item.nodeid, 60))
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.taken[item.nodeid] = time.monotonic() - begun

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


def too_long(*_: object) -> None:
    """End a test."""
    raise TimeoutError("the test takes too long")


def in_fork(seconds: float, work: Callable[..., int], *given: Any) -> int:
    """Return the exit code of some work in another process, which is ended after some time."""
    process = multiprocessing.get_context("fork").Process(target=silent, args=(work, *given))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode or 0


def silent(work: Callable[..., int], *given: Any) -> None:
    """Do some work without a word, and exit with its code."""
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1), os.dup2(nothing.fileno(), 2)
    signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.exit(work(*given))


def run(tests: Tests, *words: str) -> int:
    """Run tests in this process, and return the exit code of pytest."""
    files = sorted({each.partition("::")[0] for each in tests.order})
    quiet = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestCollectionWarning")
    words = (*quiet, "-m", "not slow", *words, *files)
    return int(pytest.main([*words], plugins=[tests]))


def record(path: Path) -> int:
    """Write which tests pass, how long they take, and which of them execute each line of a module."""
    cover = coverage.Coverage(str(path) + ".coverage", source=["src/nacp"], config_file=False)
    tests = Tests([], {}, cover.switch_context)
    cover.start()
    run(tests)
    cover.stop()
    taken = {each: tests.taken[each] for each in tests.taken if each not in tests.failed}
    data, number, lines = cover.get_data(), {each: i for i, each in enumerate(["", *taken])}, {}
    for file in data.measured_files():
        contexts = data.contexts_by_lineno(file).items()
        lines[os.path.relpath(file)] = {
            line: [number[each] for each in found if each in number] for line, found in contexts
        }
    path.write_text(json.dumps({"names": [*number], "taken": taken, "lines": lines}))
    return 0


def settle(path: Path) -> int:
    """Leave out tests that fail when the fastest ones run first, and measure without the record of lines."""
    known = json.loads(path.read_text())
    tests = Tests(sorted(known["taken"], key=known["taken"].get), known["taken"])
    run(tests)
    known["taken"] = {each: tests.taken[each] for each in tests.taken if each not in tests.failed}
    path.write_text(json.dumps(known))
    return 0


def concerned(known: dict[str, Any], file: str, line: int) -> list[str]:
    """Return the tests that execute a line: the fastest of some functions, then those of its folder."""
    lines, taken = known["lines"].get(file, {}), known["taken"]
    found = {*lines.get(str(line), ())}
    if 0 in found:  # executed at import, by no test
        found = {each for tests in lines.values() for each in tests}
    tests = [each for each in map(known["names"].__getitem__, found) if each in taken]
    rank, keys = Counter[str](), {}
    for each in sorted(tests, key=taken.__getitem__):
        keys[each] = (rank[each.partition("[")[0]], taken[each])
        rank[each.partition("[")[0]] += 1
    tests, own = sorted(keys, key=keys.__getitem__), f"tests/{Path(file).parent.name}/"
    return tests[:FIRST] + sorted(tests[FIRST:], key=lambda each: not each.startswith(own))


def verdict(tests: list[str], taken: dict[str, float]) -> str:
    """Return whether the tests notice the mutant that lies in the current folder."""
    ends = np.cumsum([taken[each] for each in tests])
    for some in (tests[:FIRST], tests[FIRST : np.searchsorted(ends, SECONDS)]):
        if some:
            code = in_fork(SLOWER * SECONDS, run, Tests(some, taken), "-x")
            if code:
                return "killed" if code in (1, 2) else f"killed (exit code {code})"
    return "survived" if tests else "not executed"


def sample(modules: list[str], most: int, seed: int) -> list[tuple[Path, int]]:
    """Return the files and numbers of random mutants, the same share of each module or folder."""
    strata = []
    for name in modules:
        path = Path("src/nacp", name)
        files = [path] if path.is_file() else sorted(path.glob("*.py"))
        strata.append([(file, i) for file in files for i, _ in enumerate(sites(ast.parse(file.read_text())))])
    total, rng = sum(map(len, strata)), random.Random(seed)
    chosen = []
    for stratum in strata:
        chosen += rng.sample(stratum, min(len(stratum), -(-most * len(stratum) // total)))
    rng.shuffle(chosen)
    return chosen


def main() -> None:
    """Try a random sample of all mutants."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="+", help="folders or files below src/nacp")
    parser.add_argument("--sample", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--map", type=Path, help="a file that keeps the record of lines and tests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        known_file = (options.map or Path(path, "map.json")).absolute()
        copy = Path(path, "nacp")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "results"))
        os.chdir(copy)
        sys.path.insert(0, str(copy / "src"))
        os.environ["PYTHONPATH"] = str(copy / "src")
        for name in PACKAGES.split():
            with suppress(ImportError):
                import_module(name)
        if not known_file.exists():
            in_fork(3600, record, known_file)
            in_fork(3600, settle, known_file)
        gc.freeze()  # forks need not look at what was imported
        known, found = json.loads(known_file.read_text()), Counter[str]()
        if not known["taken"]:
            sys.exit("no fast test passes on the unchanged code, so that no mutant can be tried")
        for file, number in sample(options.modules, options.sample, options.seed):
            text, compiled = file.read_text(), Path(cache_from_source(file))
            before, after, line = mutant(text, number)
            file.write_text(after)
            compiled.unlink(missing_ok=True)  # it may have the size and the time of the mutant
            said = verdict(concerned(known, str(file), line), known["taken"])
            file.write_text(text)
            compiled.unlink(missing_ok=True)
            found[said] += 1
            print(f"{file}:{line}", said, dict(found), file=sys.stderr, flush=True)
            if not said.startswith("killed"):
                lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(file), said, n=1)
                print(*(each.rstrip() for each in lines), sep="\n", flush=True)
    killed, total = sum(found[each] for each in found if each.startswith("killed")), sum(found.values())
    interval = binomtest(killed, total).proportion_ci(method="wilson")
    print(f"{dict(found)}: {killed} of {total} killed, {killed / total:.1%}", end=" ")
    print(f"(95% interval {interval.low:.1%} to {interval.high:.1%})")


if __name__ == "__main__":
    main()
