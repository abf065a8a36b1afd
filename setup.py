"""What pyproject.toml cannot say: the compiled engine, and the README as a package index shows it.

Without a C compiler nacp is installed all the same, and NumPy does the engine's work.
"""

import re
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

# Python without its lock has no limited API: the engine is not compiled there; nacp is installed.
_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")


def without_files(text: str) -> str:
    """Return Markdown for where the files beside it are not: links to them become names, and pictures go."""
    text = re.sub(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n*", "", text)
    text = re.sub(r"\[([^\]]+)\]\(\1\)", r"`\1`", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)([^)]+)\)", r"\1 (`\2`)", text)


# Fast, and the same bits everywhere: no product is fused with a sum. Errors of sqrt are not recorded.
_FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


setup(
    long_description=without_files(Path("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "nacp.engine._native",
            ["src/nacp/engine/native.c"],
            depends=[str(header) for header in sorted(Path("src/nacp/engine").glob("*.h"))],
            extra_compile_args=_FLAGS,
            py_limited_api=_LIMITED_API,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if _LIMITED_API else {},
)
