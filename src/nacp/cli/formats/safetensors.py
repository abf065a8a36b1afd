"""Arrays in the format of safetensors."""

from pathlib import Path

import numpy as np

from nacp._types import Array
from nacp.cli.formats.base import need, pick
from nacp.cli.formats.npy import refused
from nacp.errors import InputError


def read_safetensors(path: Path, key: str | None, usual: str) -> Array:
    """Read an array: the one with the key, or the only one, or the usual one."""
    module = need("safetensors", path)
    try:
        file = module.safe_open(path, framework="numpy")
    except module.SafetensorError:
        raise refused(path) from None
    with file:
        wanted = pick(path, list(file.keys()), key, usual)
        if file.get_slice(wanted).get_dtype() == "BF16":  # NumPy lacks it: it is the upper half of a float32
            tensor = dict(module.deserialize(path.read_bytes()))[wanted]
            bits = np.frombuffer(tensor["data"], "<u2").reshape(tensor["shape"])
            return (bits.astype(np.uint32) << 16).view(np.float32)
        try:
            return np.asarray(file.get_tensor(wanted))
        except (TypeError, AttributeError, module.SafetensorError):
            raise InputError(
                f"{path}:{wanted}", "is of a type that NumPy does not have", remedy="save it as float32"
            ) from None
