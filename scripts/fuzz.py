"""Feed damaged and invented input to every reader, to the C verbs and to `calibrate` (`make fuzz`).

Each input is a function of its target, the seed and a number: ``--only csv:17`` repeats one. It fails if it
raises anything but an `InputError` or an error of the operating system, takes more than 10 seconds or 1 GiB,
or ends the process. The files have some kilobytes, before they are decompressed.
"""

import argparse
import csv
import gzip
import io
import json
import math
import multiprocessing
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

os.environ |= {"NACP_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy
from typer.main import get_command

import nacp
from nacp.cli import app
from nacp.coverage.grid import GRID, cells_of
from nacp.engine import native
from nacp.estimation import load as load_noise
from nacp.files import sealed
from nacp.labels import read as read_export
from tests import oracle

Rng = np.random.Generator
COMMAND = get_command(app)  # built once, as that takes longer than most commands
SECONDS, MEMORY, BATCH = 10, 2**30, 1000
K, N = 4, 40
NAMES = ["ant", "bee", "cat", "dog"]
LABELS = np.repeat(np.arange(K), N // K)
PROBS = np.random.default_rng(0).multinomial(64, 0.1 + 0.6 * np.eye(K)[LABELS]) / 64
VOTES = np.where(np.random.default_rng(1).random((N, 3)) < 0.8, LABELS[:, None], -1)
MATRIX = 0.9 * np.eye(K) + 0.1 / K
KNOWN = {"noise": 0.1, "alpha": 0.4, "guarantee": "none"}


# Valid files, from which others are made


def array_file(*arrays: Any, save: Any = np.save, **named: Any) -> bytes:
    """Return the bytes of a file of arrays."""
    save(out := io.BytesIO(), *arrays, **named)
    return out.getvalue()


def lines(rows: Any, mark: str = "\n") -> bytes:
    """Return JSON lines, or rows of cells with a mark between them."""
    if mark == "\n":
        return "\n".join(map(json.dumps, rows)).encode()
    return "\n".join(mark.join(map(str, row)) for row in rows).encode()


def parquet_file(table: pa.Table) -> bytes:
    """Return the bytes of a Parquet file."""
    pq.write_table(table, out := io.BytesIO())
    return out.getvalue()


def written() -> dict[str, list[tuple[str, bytes]]]:
    """Return the endings and bytes of valid files, by target."""
    rows = [[*row, NAMES[label]] for row, label in zip(PROBS.tolist(), LABELS, strict=True)]
    table = [[*NAMES, "label"], *rows]
    objects = [{"id": i, "probs": row[:K], "label": row[K]} for i, row in enumerate(rows)]
    columns = dict(zip([*NAMES, "label"], zip(*rows, strict=True), strict=True))
    frame = pa.table({name: list(column) for name, column in columns.items()})
    names, both = np.array(NAMES)[LABELS], {"probs": PROBS, "labels": LABELS}
    tasks, records = [], []
    for i, name in enumerate(names.tolist()):
        said = {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [name]}}
        each = [{"completed_by": user, "result": [said]} for user in (1, 2)]
        tasks.append({"id": i, "data": {"text": "x"}, "annotations": each})
        each = [{"value": name, "status": "submitted", "user_id": user} for user in "ab"]
        suggested = {"kind": {"value": "dog", "agent": "m", "score": 0.5}}
        records.append({"id": i, "fields": {}, "responses": {"kind": each}, "suggestions": suggested})
    votes = [{"task": i // 2, "worker": "AB"[i % 2], "label": NAMES[i // 2 % 4]} for i in range(80)]
    cells = [list(votes[0]), *(list(vote.values()) for vote in votes)]
    exports = [tasks, records, votes]
    packed = gzip.compress(lines(table, ","))
    return {
        "table": [("csv", lines(table, ",")), ("tsv", lines(table, "\t")), ("csv.gz", packed)],
        "jsonl": [("jsonl", lines(each)) for each in (PROBS.tolist(), objects, frame.to_pylist())],
        "npy": [("npy", array_file(PROBS)), ("npy", array_file(names))],
        "npz": [("npz", array_file(save=np.savez, id=LABELS, **both))],
        "safetensors": [("safetensors", safetensors.numpy.save(both))],
        "parquet": [("parquet", parquet_file(each)) for each in (frame, pa.Table.from_pylist(objects))],
        "classes": [("txt", "\n".join(NAMES).encode()), ("json", json.dumps(NAMES).encode())],
        "groups": [("json", b'{"ant": "x", "bee": "x", "cat": 1, "dog": 1}'), ("csv", b"a\nb\n" * (N // 2))],
        "annotators": [("csv", b"a,b,c\n" + lines(VOTES, ",")), ("npy", array_file(VOTES))],
        "export": [
            *(("json", json.dumps(each).encode()) for each in exports),
            ("jsonl", lines(votes)),
            ("csv", lines(cells, ";")),
            ("csv.gz", gzip.compress(lines(cells, ","))),
            ("npy", array_file(VOTES)),
            ("parquet", parquet_file(pa.Table.from_pylist(votes))),
        ],
    }


def saved(folder: Path) -> dict[str, list[tuple[str, bytes]]]:
    """Return the same for what the library saves itself."""
    interval = nacp.UniformNoise(0.1, interval=(0.05, 0.15), confidence=0.9)
    settings: list[dict[str, Any]] = [
        {"noise": interval, "guarantee": "pac", "score": "aps"},
        {"noise": nacp.MatrixNoise(MATRIX), "score": "raps", "guarantee": "nacp", "classes": np.arange(K)},
        {"noise": nacp.GroupNoise([0, 0, 1, 1], 0.1), "score": "hps"},
        {"groups": LABELS % 2},
    ]
    cals = [nacp.calibrate(PROBS, LABELS, **KNOWN | each) for each in settings]
    followers: list[Any] = [nacp.Monitor(cals[2]), nacp.OnlineCalibrator(start=cals[2])]
    followers += [nacp.Calibrator(K, noise=model) for model in (interval, nacp.MatrixNoise(MATRIX))]
    for each in followers:
        each.update(PROBS, LABELS)
    noises = [nacp.noise_from_privacy(3.0, k=K)]
    noises.append(nacp.noise_from_audit(LABELS, np.roll(LABELS, 1), k=K, model="uniform"))
    found: dict[str, list[tuple[str, bytes]]] = {}
    objects = [*(("calibration", each) for each in cals), *(("noise", each) for each in noises)]
    for target, each in [*objects, *((type(each).__name__.lower(), each) for each in followers)]:
        each.save(folder / "x.json")
        found.setdefault(target, []).append(("json", (folder / "x.json").read_bytes()))
    np.save(folder / "probs.npy", PROBS.astype(np.float32))
    np.save(folder / "labels.npy", LABELS)
    (folder / "names.txt").write_text("\n".join(NAMES))
    np.save(folder / "named.npy", np.array(NAMES)[LABELS])
    nacp.calibrate(PROBS, np.array(NAMES)[LABELS], **KNOWN, classes=NAMES).save(folder / "cal.json")
    words = f"audit choose {folder}/probs.npy {folder}/labels.npy --budget 9 -o {folder}/audit.csv"
    run(words.split())
    rows = list(csv.reader((folder / "audit.csv").read_text().splitlines()))
    at = rows[0].index("checked")
    csv.writer(filled := io.StringIO()).writerows(
        [rows[0], *([*row[:at], "2", *row[at + 1 :]] for row in rows[1:])]
    )
    plans = [("json", (folder / "audit.plan.json").read_bytes())]
    return found | {"audit": [("csv", filled.getvalue().encode())], "plan": plans}


# Mutations

_WORDS = """
-1 1e999 nan inf 9 x " ' 0,5 1_000 é \u2028 id label ant ? 1.0 0x10 1e-400 NA true =1+1 \x1b[2J ; { } \ufeff
<f8 <f4 <f2 >f8 <i8 |u1 |b1 <c16 |O |V8 <U3 |S3 <M8[s] <m8 <U0 <f16 x <i8,<f8 (2,)<f8
(40,4) (-5,4) (10,0) (0,4) () (160,) (1099511627776,4) (9223372036854775807,2) (2,2,40) (40,4 40 (True,4)
"""
CELLS, TYPES, SHAPES = (line.split(" ") for line in _WORDS.strip().split("\n"))
CELLS += ["", "\0", "9" * 400, "a" * 140_000]
BYTES = [b"\0", b"\xff", b"[" * 3000, b"\r", b"\n", *map(str.encode, CELLS)]
VALUES = json.loads(
    "[null, true, false, 0, -1, 1, 2, 0.5, -0.0, 5e-324, 1e308, 1e999, NaN, 1e11, 9223372036854775808, "
    '"", "inf", "nan", "x", "0", "\\ud800", "\\u001b[2J", [], {}, [1], [[]], {"a": 1}, ["x"]]'
)
VALUES += [10**11, 10**400, "a" * 140_000]
_PLAIN = [
    pa.float64(),
    pa.float32(),
    pa.float16(),
    pa.int64(),
    pa.string(),
    pa.bool_(),
    pa.date32(),
    pa.null(),
]
ARROWS = [*_PLAIN, *map(pa.list_, _PLAIN), pa.list_(pa.float32(), 4), pa.list_(pa.list_(pa.int64()))]
ARROWS += [pa.binary(), pa.decimal128(9, 2), pa.timestamp("s"), pa.struct([("a", pa.int64())])]
ENTRIES = [None, 0, 1, 0.25, "ant", b"x", [0.25] * 4, [], [None] * 4, [[1]], ["a"], {"a": 1}, 2**40]
METADATA = [b"[1]", b"{}", b'{"index_columns": 5}', b'{"index_columns": ["id"]}', b"x", b"[" * 9000, b"\xff"]


def pick(rng: Rng, values: Any) -> Any:
    """Return one of some values."""
    return values[rng.integers(len(values))]


def mutate_bytes(data: bytes, rng: Rng) -> bytes:
    """Flip, insert, delete, repeat or cut off some bytes."""
    for _ in range(rng.geometric(0.5)):
        at, kind = int(rng.integers(len(data) + 1)), rng.integers(8)
        until = at + int(rng.integers(1, 33) if rng.random() < 0.8 else rng.integers(len(data) + 1))
        if kind < 4:
            flipped = bytes(each ^ 1 << int(rng.integers(8)) for each in data[at : at + 1])
            data = data[:at] + flipped + data[at + 1 :]
        elif kind == 4:
            data = data[:at] + pick(rng, BYTES) + data[pick(rng, [at, until]) :]
        elif kind == 5:
            data = data[:at] + data[until:]
        elif kind == 6:
            data = data[:until] + data[at:]
        elif rng.random() < 0.5:
            data = data[:at]
    return data


def mutate_json(value: Any, rng: Rng) -> Any:
    """Replace, remove or add a random part of a value."""
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key, copy = pick(rng, keys), value.copy()
        if rng.random() < 0.75:
            copy[key] = mutate_json(value[key], rng)
        elif rng.random() < 0.4:
            del copy[key]
        elif isinstance(copy, dict):
            copy[pick(rng, keys)] = copy.pop(key)
        else:
            copy.insert(key, pick(rng, copy))
        return copy
    if isinstance(value, int | float) and rng.random() < 0.5:
        return pick(rng, [-value, value + 1, value * 10, value // 2, str(value), [value]])
    return pick(rng, VALUES)


def mutate_table(data: bytes, rng: Rng) -> bytes:
    """Change some cells, rows or columns."""
    mark = next((each for each in "\t;" if each.encode() in data), ",")
    rows = [line.split(mark) for line in data.decode().splitlines()]
    for _ in range(rng.geometric(0.4)):
        if not rows:
            break
        i, j, kind = rng.integers(len(rows)), rng.integers(len(rows[0]) + 1), rng.integers(8)
        if kind < 4:
            rows[i][j : j + 1] = [pick(rng, CELLS)]
        elif kind == 4:
            rows = [[*row[:j], pick(rng, CELLS), *row[j:]] for row in rows]
        elif kind == 5:
            rows = [row[:j] + row[j + 1 :] for row in rows]
        elif kind == 6:
            rows = [*rows[:i], [pick(rng, CELLS)] * rng.integers(6), *rows[i:]]
        else:
            rows = rows[i:]
    return "\n".join(map(mark.join, rows)).encode()


def mutate_npy(data: bytes, rng: Rng) -> bytes:
    """Give an array an odd header."""
    parts = {
        "descr": repr(pick(rng, ["<f8", pick(rng, TYPES)])),
        "fortran_order": pick(rng, ["False", "False", "True", "0"]),
        "shape": pick(rng, ["(40,4)", pick(rng, SHAPES)]),
    }
    kept = [f"'{name}': {part}" for name, part in parts.items() if rng.random() < 0.97]
    header = "{" + ", ".join(kept) + "}\n"
    start = b"\x93NUMPY" + bytes([pick(rng, [1, 1, 1, 2, 9]), 0]) + struct.pack("<H", len(header))
    return start + header.encode() + data[128:]


def mutate_npz(data: bytes, rng: Rng) -> bytes:
    """Change the members of an archive, and their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            change = pick(rng, [mutate_npy, mutate_bytes, lambda inner, rng: inner])
            called = pick(rng, [name, name, name, "../x.npy", "probs", "a:b.npy"])
            new.writestr(called, change(old.read(name), rng))
    return out.getvalue()


def mutate_safetensors(data: bytes, rng: Rng) -> bytes:
    """Change the header of tensors."""
    length = struct.unpack("<Q", data[:8])[0] + 8
    text = json.dumps(mutate_json(json.loads(data[8:length]), rng))
    text = text.replace("F64", pick(rng, ["F64", "F64", "BF16", "F8_E4M3", "F16", "BOOL", "C64"]))
    return struct.pack("<Q", len(text) + int(rng.random() < 0.1)) + text.encode() + data[length:]


def mutate_parquet(data: bytes, rng: Rng) -> bytes:
    """Return another table, with columns of odd types."""
    columns, n = {}, int(pick(rng, [0, 1, N, N, N]))
    for name in rng.choice(["probs", "label", "id", *NAMES, "", "worker", "task"], size=rng.integers(1, 7)):
        for _ in range(8):
            kind, allowed = pick(rng, ARROWS), [pick(rng, ENTRIES) for _ in range(2)]
            with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
                columns[str(name)] = pa.array([pick(rng, allowed) for _ in range(n)], type=kind)
                break
    metadata = {b"pandas": pick(rng, METADATA)} if rng.random() < 0.3 else {}
    return parquet_file(pa.table(columns).replace_schema_metadata(metadata))


def mutate_document(data: bytes, rng: Rng) -> bytes:
    """Change some values of a JSON file; those of the library mostly keep a checksum that fits."""
    document = json.loads(data)
    for _ in range(rng.geometric(0.6)):
        document = mutate_json(document, rng)
    if isinstance(document, dict) and "checksum" in document and rng.random() < 0.9:
        with suppress(ValueError):  # it is not JSON
            document = sealed(document)
    text = json.dumps(document)
    return text.replace('"x"', "[" * 3000 + "]" * 3000 if rng.random() < 0.1 else '"x"').encode()


def mutate_lines(data: bytes, rng: Rng) -> bytes:
    """Change some values of JSON lines."""
    changed = mutate_json([json.loads(line) for line in data.splitlines()], rng)
    return lines(changed if isinstance(changed, list) else [changed])


def mutate_gz(data: bytes, rng: Rng) -> bytes:
    """Change a table before it is compressed."""
    return gzip.compress(mutate_table(gzip.decompress(data), rng), 1)


BY_ENDING: dict[str, Callable[[bytes, Rng], bytes]] = {
    "csv": mutate_table,
    "tsv": mutate_table,
    "csv.gz": mutate_gz,
    "json": mutate_document,
    "jsonl": mutate_lines,
    "npy": mutate_npy,
    "npz": mutate_npz,
    "parquet": mutate_parquet,
    "safetensors": mutate_safetensors,
}


class Folder:
    """A place for the inputs, the valid files that they are made from, and valid calls of C verbs."""

    def __init__(self, path: Path) -> None:
        self.path, self.seeds, self.calls = path, saved(path) | written(), recorded()
        self.probs, self.labels = str(path / "probs.npy"), str(path / "labels.npy")

    def input(self, target: str, rng: Rng) -> str:
        """Write a mutated file, and return its name."""
        ending, data = pick(rng, self.seeds[target])
        change = mutate_bytes if rng.random() < 0.3 else BY_ENDING.get(ending, mutate_bytes)
        path = self.path / f"input-{os.getpid()}.{ending}"
        path.write_bytes(change(data, rng))
        return str(path)


# Targets

Target = Callable[[Rng, Folder], None]


def use(cal: Any, rng: Rng) -> None:
    """Describe what was read, and predict with it if it is a calibration."""
    str(cal)
    if isinstance(cal, nacp.Calibration) and cal.k < 100:
        cal.predict_set(rng.dirichlet(np.ones(cal.k), size=3)).to_lists()


def follower(kind: Any) -> Target:
    """Return the target that reads a state and goes on with it."""

    def read(rng: Rng, folder: Folder) -> None:
        found = kind.load(folder.input(kind.__name__.lower(), rng))
        str(found), found.update(rng.dirichlet(np.ones(K), size=5), rng.integers(K, size=5))

    return read


def labels(rng: Rng, folder: Folder) -> None:
    """Read the export of a labelling tool."""
    table = read_export(folder.input("export", rng))
    str(table), table.matrix(), table.checked


def words_of(target: str, file: str, folder: Folder, rng: Rng) -> list[str]:
    """Return the words of a command that reads a file."""
    p, y, good = folder.probs, folder.labels, str(folder.path / "cal.json")
    out = f"{folder.path}/out-{os.getpid()}."
    fit = ["calibrate", p, y, "--alpha", "0.4", "--out", f"{out}json"]
    names = ["--classes", str(folder.path / "names.txt")]
    noisy = ["--noise", "0.1", "--guarantee", "none"]
    if target == "calibration":
        return pick(rng, [["predict", file, p, "-o", f"{out}csv"], ["evaluate", file, p, y]])
    if target == "plan":  # the table names it
        table = folder.seeds["audit"][0][1].replace(b"audit.plan.json", os.path.basename(file).encode())
        Path(file).with_suffix(".csv").write_bytes(table)
        return [*fit, "--audit", str(Path(file).with_suffix(".csv"))]
    if target in ("noise", "audit"):
        return [*fit, f"--{target}", file]
    named = ["calibrate", p, str(folder.path / "named.npy"), *fit[3:], *noisy]
    if target == "classes":
        return [*named, "--classes", file]
    if target == "groups":
        return [*named, *names, "--small", "merge", "--groups", file]
    if target in ("annotators", "export"):
        return ["noise", "annotators", file, "--out", f"{out}json", *pick(rng, [[], names, names])]
    key = pick(rng, ["", "", ":probs", ":label", ":labels"])
    predict = ["predict", good, file, "-o", out + pick(rng, ["csv", "jsonl", "npz", "parquet"])]
    calibrate = ["calibrate", file, file + key, *fit[3:], *noisy, *pick(rng, [[], names])]
    labelled = ["calibrate", p, file + key, *calibrate[3:]]
    return pick(rng, [predict, calibrate, labelled, ["evaluate", good, p, file]])


def run(words: list[str]) -> int:
    """Run a command, which must end by itself, and with a sentence if it fails; return its exit code."""
    said, code = io.StringIO(), None
    with redirect_stdout(said), redirect_stderr(said):
        try:
            COMMAND(words, prog_name="nacp")
        except SystemExit as end:
            code = end.code
    assert code in (0, 2, 3) or (code == 1 and words[0] == "evaluate"), said.getvalue()
    assert "\x1b[2J" not in said.getvalue(), "a terminal escape from a file"
    return int(code)


def command(target: str) -> Target:
    """Return the target that runs commands on a file."""

    def read(rng: Rng, folder: Folder) -> None:
        run(words_of(target, folder.input(target, rng), folder, rng))

    return read


def check_seeds(folder: Folder, rng: Rng) -> None:
    """Make sure that commands accept the valid files; inputs that all fail at once would tell nothing."""
    for target in COMMANDS:
        for ending, data in folder.seeds[target]:
            path = folder.path / f"valid.{ending}"
            path.write_bytes(data)
            if all(run(words_of(target, str(path), folder, rng)) for _ in range(30)):
                sys.exit(f"no command accepts the valid {ending} file of the target {target}")


ARGUMENTS: dict[str, list[Any]] = {
    "alpha": [0.1, 5e-324, 1 - 2**-53, 0, 1, "0.1", None, [0.1, 0.2], [], math.nan, [[0.1]], True, 10**400],
    "score": ["aps", "raps", "saps", "margin", "topk", "precomputed", "x", None, 3, nacp.RAPS(penalty=1e308)],
    "guarantee": ["pac", "binomial", "expected", "nacp", "acnl", "crcp", "split", "x", None, 3],
    "delta": [0.05, 5e-324, 0, 1, "x", math.nan, 1 - 2**-53],
    "crossing": ["first", "last", "x", None],
    "classes": [None, NAMES, NAMES[:3], ["a"] * K, [1, "1", 1.0, True], [[1]] * K, "abcd", 4, [math.nan] * K],
    "normalize": [True, "yes"],
    "from_logits": [True, None],
    "random_state": [0, -1, 10**30, "x", None, 0.5],
    "groups": [LABELS % 2, ["a"] * N, np.arange(N), {0: "a"}, "x", [None] * N, np.zeros((N, 2))],
    "by": ["class", "x"],
    "small": ["error", "all", "merge", "x"],
    "clean": [(range(9), LABELS[:9]), ([], []), ([0, 0], [1, 1]), ([50], [0]), 5, np.zeros(N), [None] * N],
    "noise": [None, 1.0, -0.1, "x", MATRIX, np.eye(3), np.zeros((K, K)), [[1]], {}, 1e-320, math.nan, [0.1]],
}
ARGUMENTS["score"] += [lambda p: -p, lambda p: "x", lambda p: p[:, :1], lambda p: np.full_like(p, np.nan)]
ARGUMENTS["guarantee"] += [nacp.NACP(delta=1e-300), nacp.PAC(delta=1e-300), nacp.Binomial(delta=1 - 2**-53)]


def arguments(rng: Rng, folder: Folder) -> None:
    """Call `calibrate` with odd values of its arguments."""
    probs, labels = PROBS.copy(), LABELS
    if rng.random() < 0.3:
        probs[rng.integers(N), rng.integers(K)] = pick(rng, [np.nan, np.inf, -1.0, 2.0, 0.0, 1e-320, 1e308])
    elif rng.random() < 0.3:
        kind = pick(rng, ["O", "f2", "c16", ">f8", "U3"])
        probs = pick(
            rng, [probs.astype(kind), probs[:0], probs[:, :1], probs[None], probs[::-1, ::-1], "x", None]
        )
    elif rng.random() < 0.3:
        other = labels.astype(pick(rng, ["O", "U", "V8", "M8[s]", "?", "f4", "u8"]))
        labels = pick(
            rng, [other, labels[:5], labels + 0.5, [None] * N, labels - 1, labels * 2**61, VOTES, "x"]
        )
    names = rng.choice(list(ARGUMENTS), size=rng.integers(1, 5), replace=False).tolist()
    odd = {name: pick(rng, [ARGUMENTS[name][0], pick(rng, ARGUMENTS[name])]) for name in names}
    str(nacp.calibrate(probs, labels, **KNOWN | odd))


def recorded() -> list[tuple[str, tuple[Any, ...]]]:
    """Return valid calls of the C verbs."""
    calls: list[tuple[str, tuple[Any, ...]]] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            return lambda *given: (calls.append((name, given)), getattr(real, name)(*given))[1]

    real, native._native = native._native, Recorder()
    try:
        for score in ("hps", "aps", "raps"):
            for guarantee, model in (("pac", 0.1), ("pac", MATRIX), ("binomial", 0.1)):
                options = KNOWN | {"guarantee": guarantee, "noise": model, "score": score}
                nacp.calibrate(PROBS, LABELS, **options).predict_set(PROBS)
    finally:
        native._native = real
    return calls


def odd(given: Any, rng: Rng) -> Any:
    """Return an argument of a verb, and sometimes another one in its place."""
    if isinstance(given, tuple):
        return tuple(odd(each, rng) for each in given)
    if rng.random() > 0.15:
        return given.copy() if isinstance(given, np.ndarray) else given
    if not isinstance(given, np.ndarray) or not given.size or rng.random() < 0.1:
        return pick(rng, [None, 0, -1, 2**40, 1e300, math.nan, "x", (), np.zeros(3), LABELS.reshape(2, -1)])
    copy, kind = given.copy(), rng.integers(10)
    if kind < 6:
        whole = copy.dtype.kind in "iu"
        values = [0, -1, 1, 2**31 - 1, 2**62, -(2**62)] if whole else [0, -1, np.nan, np.inf, -np.inf, 1e300]
        copy.reshape(-1)[rng.integers(copy.size, size=2)] = np.array(pick(rng, values)).astype(copy.dtype)
        return copy
    if kind == 6:
        return copy.astype(pick(rng, ["f4", "f8", "i4", "i8", "u8", "O", "c16", ">f8", "V8", "?"]))
    copy.flags.writeable = kind == 7
    cut = [copy[1:], copy[::-1], copy[..., ::2], copy[:0]]
    return pick(rng, [*cut, copy.T, copy[None], copy.ravel(), np.tile(copy, 2)])


def verbs(rng: Rng, folder: Folder) -> None:
    """Call a C verb with buffers that do not fit: it may refuse them, or return anything, but not crash."""
    name, given = pick(rng, folder.calls)
    with suppress(TypeError, ValueError, ArithmeticError, BufferError):
        getattr(native._native, name)(*odd(given, rng))


def by_oracle(rng: Rng, folder: Folder) -> None:
    """Compare the threshold and the estimate of a small problem with exact arithmetic."""
    n, k = int(rng.integers(1, 9)), int(rng.integers(2, 6))
    probs = np.array([rng.multinomial(16, rng.dirichlet(np.ones(k))) for _ in range(n)]) / 16
    labels, rate = rng.integers(k, size=n), pick(rng, [0.0, 0.125, 0.25])
    alpha, score = pick(rng, [0.05, 0.1, 0.3, 0.5, 0.8]), pick(rng, ["hps", "margin", "topk"])
    crossing = pick(rng, ["first", "last"])
    asked = {"alpha": alpha, "score": score, "crossing": crossing}
    cal = nacp.calibrate(probs, labels, noise=rate, guarantee="none", **asked)
    exact = [oracle.scores(score, row) for row in probs]
    inverse = oracle.inverse(oracle.uniform_matrix(rate, k))
    find = oracle.first_crossing if crossing == "first" else oracle.last_crossing
    target = 1 - oracle.exact(alpha) - oracle.Fraction(1, 10**12)
    wanted = find(oracle.on_grid(exact), labels, inverse, target)
    if wanted is None:
        assert cal.threshold == math.inf, cal
        return
    cell = cells_of(np.array([float(wanted)]))
    assert cells_of(np.array([cal.threshold])) == cell, (cal.threshold, float(wanted))
    estimate = float(oracle.clean_coverage(exact, labels, inverse, GRID[cell[0]]))
    assert abs(min(max(estimate, 0), 1) - cal.estimate) < 1e-9, (cal.estimate, estimate)


COMMANDS = ["table", "jsonl", "npy", "npz", "safetensors", "parquet", "classes", "groups"]
COMMANDS += ["annotators", "export", "noise", "audit", "plan"]
FOLLOWERS = (nacp.Monitor, nacp.OnlineCalibrator, nacp.Calibrator)
TARGETS: dict[str, Target] = {
    "calibration": lambda rng, folder: use(nacp.load(folder.input("calibration", rng)), rng),
    "estimate": lambda rng, folder: use(load_noise(folder.input("noise", rng)), rng),
    **{each.__name__.lower(): follower(each) for each in FOLLOWERS},
    **{each.__name__: each for each in (labels, arguments, verbs, by_oracle)},
    **{name: command(name) for name in COMMANDS},
}


# Running


class Hang(BaseException):
    """An input took too long."""


def stop(*_: object) -> None:
    """End an input that takes too long."""
    raise Hang


def generator(target: str, seed: int, number: int) -> Rng:
    """Return the generator of an input."""
    return np.random.default_rng([seed, sum(map(ord, target)), number])


def failure_of(target: str, seed: int, number: int, folder: Folder) -> str | None:
    """Run one input, and return where it failed, if it did."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        TARGETS[target](generator(target, seed, number), folder)
    except nacp.InputError:
        return None
    except (Exception, Hang) as error:
        if isinstance(error, OSError) and error.errno is not None:
            return None
        frames = [each for each in traceback.extract_tb(error.__traceback__) if "/nacp/" in each.filename]
        at = f"{frames[-1].filename.rpartition('/nacp/')[2]}:{frames[-1].lineno}" if frames else "?"
        return f"{target}: {type(error).__name__} at {at}: {str(error)[:90]!r}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def work(target: str, seed: int, start: int, folder: Folder, current: Any, failed: Any) -> None:
    """Run a batch of inputs in a process of its own, with bounded memory."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGALRM, stop)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    sys.stdout = sys.stderr = io.StringIO()
    for number in range(start, start + BATCH):
        current.value = number
        found = failure_of(target, seed, number, folder)
        if found is not None:
            failed.put((found, f"{target}:{number}"))


def fuzz(
    targets: list[str], seconds: float, inputs: int, seed: int, folder: Folder
) -> tuple[Counter[str], dict[str, str]]:
    """Run batches of all targets in turn; return the numbers of inputs, and an example of each failure."""
    context, done, failures = multiprocessing.get_context("fork"), Counter[str](), dict[str, str]()
    end, failed = time.monotonic() + seconds, context.SimpleQueue()
    while time.monotonic() < end and sum(done.values()) < inputs:
        target = min(targets, key=lambda each: done[each])
        start, current = done[target], context.Value("q", -1)
        process = context.Process(target=work, args=(target, seed, start, folder, current, failed))
        process.start()
        latest, since = -1, time.monotonic()
        while process.is_alive() or not failed.empty():
            process.join(0.05)
            while not failed.empty():
                failures.setdefault(*failed.get())
            if current.value != latest:
                latest, since = current.value, time.monotonic()
            elif time.monotonic() > since + 3 * SECONDS:  # compiled code does not hear the signal
                process.kill()
        done[target] = current.value + 1
        if process.exitcode:
            ended = f"{target}: the process ended by {process.exitcode}"
            failures.setdefault(ended, f"{target}:{current.value}")
    return done, failures


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--inputs", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--only", metavar="TARGET:NUMBER", help="repeat one input, with its traceback")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        folder, begun = Folder(Path(path)), time.monotonic()
        warnings.simplefilter("ignore")
        check_seeds(folder, np.random.default_rng(0))
        if options.only:
            target, number = options.only.split(":")
            TARGETS[target](generator(target, options.seed, int(number)), folder)
            return
        targets = options.targets.split(",")
        done, failures = fuzz(targets, options.seconds, options.inputs, options.seed, folder)
    print(*(f"{target:<18}{number:>10,}" for target, number in done.items()), sep="\n")
    print(f"{sum(done.values()):,} inputs in {time.monotonic() - begun:,.0f} s, {len(failures)} failures")
    print(*(f"  {example:<20} {found}" for found, example in sorted(failures.items())), sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
