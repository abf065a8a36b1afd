"""The file formats that commands read: arrays (npy, safetensors) and tables (text, jsonl, parquet)."""

from pathlib import Path

from nacp._types import Array
from nacp.cli.formats.base import LINES, PARQUET, Table, checked, is_table, kind, unknown
from nacp.cli.formats.jsonl import JsonTable
from nacp.cli.formats.npy import read_npy
from nacp.cli.formats.parquet import ParquetTable
from nacp.cli.formats.safetensors import read_safetensors
from nacp.cli.formats.text import TextTable


def open_table(path: Path, key: str | None = None) -> Table:
    """Open a table of any format. The key is the column that will be asked for, if it is known."""
    if not is_table(path):
        if path.is_dir():
            checked(path)
        raise unknown(path)
    if kind(path) == PARQUET:
        return ParquetTable(checked(path), key)
    return JsonTable(path) if kind(path) == LINES else TextTable(path)


def read_array(path: Path, key: str | None, usual: str) -> Array:
    """Read an array: the one with the key, or the only one, or the usual one."""
    checked(path)
    return (read_safetensors if path.suffix == ".safetensors" else read_npy)(path, key, usual)
