"""NumPy's and safetensors' arrays."""

import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from nacp._types import Array
from nacp.cli.formats.common import checked, need, pick
from nacp.errors import InputError

UNREADABLE = (ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error)


def read_array(path: Path, key: str | None, usual: str) -> Array:
    """Read an array: the one with the key, or the only one, or the usual one."""
    checked(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path, key, usual)
    if path.suffix == ".npy":
        try:
            return np.lib.format.open_memmap(path, mode="r")
        except UNREADABLE as error:
            raise _refused(path, error) from None
    with ExitStack() as stack:
        opened = stack.enter_context(path.open("rb"))
        try:
            file = stack.enter_context(np.load(opened, allow_pickle=False))
        except UNREADABLE as error:
            raise _refused(path, error) from None
        wanted = pick(path, file.files, key, usual)
        try:
            return np.asarray(file[wanted])
        except UNREADABLE as error:
            raise _refused(path, error) from None


def _refused(path: Path, error: Exception | None = None) -> InputError:
    """Return what is to be said of a file that NumPy refuses: it holds Python objects, or is damaged."""
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


def _read_safetensors(path: Path, key: str | None, usual: str) -> Array:
    module = need("safetensors", path)
    try:
        file = module.safe_open(path, framework="numpy")
    except module.SafetensorError:
        raise _refused(path) from None
    with file:
        wanted = pick(path, list(file.keys()), key, usual)
        if file.get_slice(wanted).get_dtype() == "BF16":  # which NumPy lacks: it is half of a float32
            tensor = dict(module.deserialize(path.read_bytes()))[wanted]
            bits = np.frombuffer(tensor["data"], "<u2").reshape(tensor["shape"])
            return (bits.astype(np.uint32) << 16).view(np.float32)
        try:
            return np.asarray(file.get_tensor(wanted))
        except (TypeError, AttributeError, module.SafetensorError):
            raise InputError(
                f"{path}:{wanted}", "is of a type that NumPy does not have", remedy="save it as float32"
            ) from None
