"""What is built and installed, also without a C compiler; what is declared about it."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import nacp

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
_NOT_BUILT_FROM = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")


def copy_sources(folder):
    shutil.copytree(ROOT / "src", folder / "src", ignore=_NOT_BUILT_FROM)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder / name)


def build(folder, *command):
    """Run a command of Python in a copy of the project, on a machine without a C compiler."""
    env = {**os.environ, "CC": "no-such-compiler", "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, *command]
    built = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return next(path for path in folder.rglob("*") if path.name.endswith((".whl", ".tar.gz")))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package as a machine without a compiler installs it."""
    folder = tmp_path_factory.mktemp("built")
    copy_sources(folder)
    wheel = build(folder, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", ".")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_python_without_its_lock_installs_it_too(tmp_path):
    copy_sources(tmp_path)
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


@pytest.fixture(scope="module")
def check_release():
    spec = importlib.util.spec_from_file_location("check_release", ROOT / "scripts" / "check_release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_smoke_test_of_a_release_runs(check_release):
    done = run(check_release.SMOKE_TEST, ROOT / "src", NACP_ENGINE="native")
    assert done.stdout.startswith("Promised ("), done.stderr


def test_version_and_date_agree_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (date,) = re.findall(r'^date-released: "(\d{4}-\d\d-\d\d)"$', citation, flags=re.MULTILINE)
    assert f"\nversion: {nacp.__version__}\n" in citation
    assert f"\n## {nacp.__version__} ({date})\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_wheel_contains_the_package_and_nothing_else(installed, check_release):
    names = {str(path.relative_to(installed).as_posix()) for path in installed.rglob("*") if path.is_file()}
    names = {name for name in names if "__pycache__" not in name}
    assert check_release.unexpected(names) == []
    assert names >= {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert names >= {"nacp/py.typed", "nacp/data/languages.json.xz", "nacp/data/LICENSE"}
    assert names >= {f"nacp/show/report/page.{kind}" for kind in ("css", "html", "js")}


def test_what_does_not_belong_in_a_wheel_is_found(check_release):
    strangers = [
        "nacp/engine/native.c",
        "nacp/engine/rows.h",
        "nacp/engine/_native.pyi",
        "nacp/pictures/a.png",
    ]
    strangers += ["tests/test_packaging.py", "nacp/data/other.json", "setup.py"]
    assert check_release.unexpected(["nacp/__init__.py", *strangers, "nacp/py.typed"]) == strangers


def test_an_sdist_depends_on_its_files_and_the_given_date_only(tmp_path):
    built = []
    for i, mode in enumerate((0o644, 0o600)):
        folder = tmp_path / str(i)
        copy_sources(folder)
        os.utime(folder / "README.md", (1e9 * i, 1e9 * i))
        (folder / "setup.py").chmod(mode)
        built.append(build(folder, "setup.py", "--quiet", "sdist").read_bytes())
    assert built[0] == built[1]


def declared(*extras):
    """Return the requirements of the project, or those of some of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if not extras:
        return project["dependencies"]
    return [package for extra in extras for package in project["optional-dependencies"][extra]]


USER_EXTRAS = ("torch", "dask", "sklearn", "plot", "io", "cleanlab")


def test_the_lowest_versions_are_those_that_are_tested():
    lines = (ROOT / "tests" / "minimum.txt").read_text(encoding="utf-8").splitlines()
    tested = [line.replace("==", ">=") for line in lines if not line.startswith("#")]
    assert tested == declared() + declared(*USER_EXTRAS, "test")


def test_the_conda_recipe_agrees_with_the_project():
    recipe = (ROOT / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    assert f'set version = "{nacp.__version__}"' in recipe

    def listed(key):
        (block,) = re.findall(rf"^  {key}:\n((?:    - .+\n)+)", recipe, flags=re.MULTILINE)
        return [line.strip().removeprefix("- ").replace(" ", "") for line in block.splitlines()]

    assert listed("run") == ["python>=3.11", *declared()]
    names = {"pytorch": "torch", "dask-core": "dask[array,distributed]", "matplotlib-base": "matplotlib"}
    optional = [
        re.sub(r"^[a-z-]+", lambda found: names.get(found[0], found[0]), line)
        for line in listed("run_constrained")
    ]
    optional.remove("distributed>=2024.8")
    assert optional == declared(*USER_EXTRAS)
