"""What pyproject.toml cannot express: the compiled engine, the README on a package index, the sdist.

Without a C compiler nacp installs all the same and runs on NumPy.
"""

import gzip
import os
import re
import sysconfig
import tarfile
import time
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.sdist import sdist

# Free-threaded Python has no limited API: there, nacp is installed without the compiled engine.
_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")

# No product is fused with a sum, so that results are the same bits on every machine. -g0: debugging
# information would record the folder of the build.
_FLAGS = ["-std=gnu11", "-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
if "-fsanitize" in os.environ.get("CFLAGS", ""):
    _FLAGS.remove("-g0")  # reports of the sanitizers name lines


def without_files(text: str) -> str:
    """Return Markdown for a page without the repository's files: no links to them, no pictures."""
    text = re.sub(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n*", "", text)
    text = re.sub(r"\[([^\]]+)\]\(\1\)", r"`\1`", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)([^)]+)\)", r"\1 (`\2`)", text)


class ReproducibleSdist(sdist):
    """An sdist whose bytes depend on its files and SOURCE_DATE_EPOCH only.

    The sdist of setuptools also depends on the times, modes and owners of the files.
    """

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        """Write ``base_name.tar.gz`` and return its path."""
        date = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def normalised(member):
            member.mtime = date
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        path = f"{base_name}.tar.gz"
        self.mkpath(os.path.dirname(path))
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=date) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as archive,
        ):
            archive.add(base_dir, filter=normalised)
        return path


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
    cmdclass={"sdist": ReproducibleSdist},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if _LIMITED_API else {},
)
