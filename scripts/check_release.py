"""Check that the last commit can be released (`make release-check`); writes nothing into the repository.

The commit is built twice, in two folders: an sdist, and a wheel from it. Both builds must have the same
bytes. The wheel must contain nothing but the package, use the stable ABI of Python 3.11 only, and run in a
new environment with the newest versions of its dependencies. The workflows and the configuration of other
services are compared with their schemas. Only this platform's wheel is built;
`.github/workflows/wheels.yml` builds the others.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent

# Every file of a wheel matches one of these.
CONTENTS = [
    r"_nacp_command\.py",
    r"nacp/([a-z_]+/)*[a-z_]+\.py",
    r"nacp/py\.typed",
    r"nacp/data/(LICENSE|README\.md|languages\.json\.xz)",
    r"nacp/show/report/page\.(css|html|js)",
    r"nacp/engine/_native\.abi3\.so",
    r"nacp-[0-9.]+\.dist-info/[A-Za-z_.]+",
    r"nacp-[0-9.]+\.dist-info/licenses/(src/nacp/data/)?LICENSE",
]

SCHEMAS = {
    "vendor.github-workflows": ".github/workflows/*.yml",
    "vendor.github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "vendor.github-issue-forms": ".github/ISSUE_TEMPLATE/form-*.yml",
    "vendor.readthedocs": ".readthedocs.yaml",
    "vendor.citation-file-format": "CITATION.cff",
}

SMOKE_TEST = """
import nacp
assert nacp.engine.current().NAME == "native"
print(nacp.calibrate([[.9, .1], [.2, .8]] * 50, [0, 1] * 50, noise=0))
"""


def unexpected(names: Iterable[str]) -> list[str]:
    """Return the names of files that do not belong in a wheel."""
    return [name for name in names if not any(re.fullmatch(known, name) for known in CONTENTS)]


def run(*command: str | Path, folder: Path = ROOT, **settings: str) -> str:
    """Run a command, which must succeed, and return what it prints."""
    print("+", *(Path(part).name if isinstance(part, Path) else part for part in command), flush=True)
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def build(folder: Path) -> dict[str, Path]:
    """Build the last commit in a folder; return the sdist and the wheel by their names."""
    source = folder / "source"
    run("git", "clone", "--quiet", ROOT, source)
    date = run("git", "log", "-1", "--format=%ct").strip()
    command = [sys.executable, "-m", "build", "--quiet", "--no-isolation", "--outdir", "../dist"]
    run(*command, folder=source, SOURCE_DATE_EPOCH=date)
    return {path.name: path for path in sorted((folder / "dist").iterdir())}


def check(folder: Path) -> None:
    """Run all checks."""
    for schema, files in SCHEMAS.items():
        run(TOOLS / "check-jsonschema", "--builtin-schema", schema, *sorted(ROOT.glob(files)))
    run(TOOLS / "zizmor", "--offline", "--quiet", ".github")
    run(TOOLS / "validate-pyproject", "pyproject.toml")

    first, second = build(folder / "a"), build(folder / "some" / "other" / "place")
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in first.items()}
    again = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in second.items()}
    if hashes != again:
        sys.exit(f"Two builds of one commit differ:\n{hashes}\n{again}")

    sdist, wheel = sorted(first.values(), key=lambda path: path.suffix)
    with zipfile.ZipFile(wheel) as files:
        if strangers := unexpected(files.namelist()):
            sys.exit(f"{wheel.name} contains files that do not belong there: {strangers}")
    run(TOOLS / "twine", "check", "--strict", sdist, wheel)
    run(TOOLS / "check-wheel-contents", wheel)
    run(TOOLS / "abi3audit", "--strict", wheel)
    if sys.platform == "linux":
        print(run(TOOLS / "auditwheel", "show", wheel))

    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    run(python, "-c", SMOKE_TEST, folder=folder, NACP_ENGINE="native", PYTHONPATH="")
    run(folder / "venv" / "bin" / "nacp", "--help", folder=folder, PYTHONPATH="")
    for name, found in hashes.items():
        print(found, name)


if __name__ == "__main__":
    os.umask(0o022)  # the modes of generated files are part of the wheel
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder))
