"""What is built and installed: without a C compiler, too."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
_NOT_BUILT_FROM = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")


def build(folder, *command):
    """Run a command of Python in a copy of the project, on a machine without a C compiler."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=_NOT_BUILT_FROM)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder / name)
    env = {**os.environ, "CC": "no-such-compiler"}
    command = [sys.executable, *command]
    built = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package as a machine without a compiler installs it."""
    folder = tmp_path_factory.mktemp("built")
    wheel = build(folder, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", ".")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_python_without_its_lock_installs_it_too(tmp_path):
    code = (
        "import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1;"
        "import setuptools.build_meta; setuptools.build_meta.build_wheel('.')"
    )
    assert build(tmp_path, "-c", code)


def run(code: str, installed: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(installed), **settings}
    env = {name: value for name, value in env.items() if value}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=installed, capture_output=True, text=True, check=False
    )


def test_without_a_compiler_numpy_serves(installed):
    assert not list(installed.rglob("*.so"))
    assert "engine        numpy" in run("import nacp; nacp.show_versions()", installed, NACP_ENGINE="").stdout
    code = "import nacp; print(nacp.calibrate([[.9, .1], [.2, .8]] * 50, [0, 1] * 50, noise=0).threshold)"
    assert float(run(code, installed, NACP_ENGINE="").stdout) < 1


def test_to_ask_for_an_engine_that_is_not_there_is_an_error(installed):
    refused = run("import nacp", installed, NACP_ENGINE="native")
    assert refused.returncode
    assert "was not built" in refused.stderr.splitlines()[-1]


def test_on_a_package_index_the_readme_has_no_link_that_leads_nowhere(installed):
    links = r"\]\((?!https?://)[^)]*\)"
    assert re.search(links, (ROOT / "README.md").read_text(encoding="utf-8"))
    shown = next(installed.glob("*.dist-info/METADATA")).read_text(encoding="utf-8")
    assert "Description-Content-Type: text/markdown" in shown
    assert re.findall(links, shown) == []
    assert "`docs/estimation.md`" in shown
