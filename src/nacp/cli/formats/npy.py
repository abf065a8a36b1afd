"""Arrays in the formats of NumPy: .npy and .npz."""

import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np

from nacp._types import Array
from nacp.cli.formats.base import pick
from nacp.errors import InputError

UNREADABLE = (
    ValueError,
    TypeError,
    EOFError,
    OverflowError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy raises for files that are damaged or of another format."""


def read_npy(path: Path, key: str | None, usual: str) -> Array:
    """Map a ``.npy`` file, or read an array of ``.npz``: the one with the key, or the only or usual one."""
    try:
        if path.suffix == ".npy":
            return np.lib.format.open_memmap(path, mode="r")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return np.asarray(file[pick(path, file.files, key, usual)])
    except InputError:
        raise
    except UNREADABLE as error:
        raise refused(path, error) from None


def refused(path: Path, error: Exception | None = None) -> InputError:
    """Return the error for a file that NumPy refuses: it holds Python objects, or is damaged."""
    said = str(error)
    if "Python objects in dtype" in said or "Object arrays" in said:
        return InputError(
            str(path),
            "holds Python objects (dtype object), which only pickle could read, and that may run code",
            remedy="save texts as such, by np.save(file, labels.astype(str)), and numbers as numbers",
        )
    return InputError(
        str(path), f"cannot be read as {path.suffix}: it is damaged or holds something else than arrays"
    )
