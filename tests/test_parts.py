"""Files larger than memory: memory maps and parts give the same bits as arrays, read once."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

import nacp
from nacp.paper import twins
from nacp.points import open_rows, watching
from nacp.points.raw import fetch_mapped
from nacp.tuning import tuned

N, K = 2000, 100
CUTS = [0, 1, 700, 701, 1400, N]  # parts of odd sizes


@pytest.fixture(scope="module")
def points():
    """Probabilities, true labels and noisy labels, more than are counted at once."""
    probs, labels = twins.simulate("cifar100", n=N, random_state=0)
    return probs, labels, nacp.UniformNoise(0.2).sample(labels, K, random_state=1)


def write_npy(path, part):
    np.save(path, part)


def write_safetensors(path, part):
    from safetensors.numpy import save_file

    save_file({"probs": part, "labels": np.arange(len(part))}, path)


def write_parquet(path, part):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = pyarrow.table({f"class {j}": part[:, j] for j in range(part.shape[1])})
    write_table(table, path, row_group_size=333)


def write_lists(path, part):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({"probs": list(part)}), path, row_group_size=333)


WRITERS = {
    "npy": (".npy", write_npy),
    "safetensors": (".safetensors", write_safetensors),
    "parquet": (".parquet", write_parquet),
    "lists": (".parquet", write_lists),
}


def write_parts(folder, kind, matrix, cuts=CUTS):
    ending, write = WRITERS[kind]
    folder.mkdir()
    for i, (start, stop) in enumerate(pairwise(cuts)):
        write(folder / f"part {9 + i}{ending}", matrix[start:stop])  # 9, 10, ...: sorted by number
    return folder


def same(one, other):
    """Whether two calibrations are one, but for the names of the classes, and what was counted too.

    As far as both were: what is worth while to count is guessed from other labels where a file is read.
    """
    values = [(c.native_threshold, c.estimate, c.widths, c.deviation, c.warnings) for c in (one, other)]
    upto = min(each.tally.cells[-2] for each in (one, other))
    counted = [
        [getattr(each.tally, name)[each.tally.cells <= upto].tolist() for name in ("cells", "hits", "pairs")]
        for each in (one, other)
    ]
    return values[0] == values[1] and counted[0] == counted[1] and len(counted[0][0]) > 10


# The same bits


@pytest.mark.parametrize("kind", WRITERS)
def test_parts_give_the_bits_of_the_array(points, kind, tmp_path):
    probs, _, noisy = points
    parts = nacp.open_parts(write_parts(tmp_path / "parts", kind, probs))
    assert (parts.shape, parts.dtype, parts.ndim, len(parts)) == ((N, K), np.float32, 2, N)
    assert np.array_equal(np.asarray(parts), probs)
    some = np.random.default_rng(0).permutation(N)[:50]
    for where in (slice(690, 1450), slice(5, 5), slice(3, None, 7), some, [2, 1], 1399, (some, [3, 1])):
        expected = probs[np.ix_(*where)] if isinstance(where, tuple) else probs[where]
        assert np.array_equal(parts[where], expected)
    assert np.array_equal(parts[:, [5, 2]][10:12], probs[10:12][:, [5, 2]])
    for options in ({"score": "aps"}, {"score": "hps", "guarantee": "none"}):
        # As large inputs are read: a hint, a limit, and in blocks that part ends lie within.
        with tuned(hint_pairs=1000, counted_pairs=1000, block_entries=20_000):
            found, expected = (nacp.calibrate(each, noisy, noise=0.2, **options) for each in (parts, probs))
            assert same(found, expected)
            sets, known = found.predict_set(parts), expected.predict_set(probs)
        assert np.array_equal(sets.labels, known.labels)
        assert np.array_equal(sets.offsets, known.offsets)
    assert (found.classes is not None) == (kind == "parquet")


def test_compare_reads_parts(points, tmp_path):
    probs, _, noisy = points
    parts = nacp.open_parts(write_parts(tmp_path / "parts", "npy", probs))
    options = {"noise": 0.2, "scores": ["hps"], "guarantees": ["pac", "none"], "test_labels": noisy}
    found, expected = (nacp.compare(each, noisy, test_probs=each, **options) for each in (parts, probs))
    assert str(found) == str(expected)


def test_a_mapped_file_gives_the_bits_of_the_array(points, tmp_path):
    probs, _, noisy = points
    np.save(tmp_path / "probs.npy", probs)
    np.save(tmp_path / "half.npy", probs.astype(np.float16))
    mapped = np.load(tmp_path / "probs.npy", mmap_mode="r")
    assert same(nacp.calibrate(mapped, noisy, noise=0.2), nacp.calibrate(probs, noisy, noise=0.2))
    assert np.array_equal(mapped, probs)  # also after what was read was let go of
    own = np.load(tmp_path / "probs.npy", mmap_mode="c")
    own[0, 0] += 0.5
    with pytest.raises(nacp.InputError, match=r"row 0 sums to 1\.5"):
        nacp.calibrate(own, noisy, noise=0.2)
    assert own[0, 0] == probs[0, 0] + np.float32(0.5)  # changes that no file has are not let go of


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="the system does not tell what is mapped")
def test_rows_of_a_mapped_file_are_read_from_it_and_of_no_other(points, tmp_path):
    probs, path, rows = points[0], tmp_path / "my probs.npy", np.array([1999, 3, 4, 5, 700])
    np.save(path, probs)
    mapped, out = np.load(path, mmap_mode="r+"), np.empty((len(rows), K), np.float32)
    mapped[4] = probs[0]  # nobody has written it to the file yet
    assert fetch_mapped(mapped, rows, out)
    assert np.array_equal(out, mapped[rows])
    assert fetch_mapped(mapped[3:], rows[1:] - 3, out[1:])
    assert np.array_equal(out, mapped[rows])
    one = np.empty(len(rows), np.float32)
    assert fetch_mapped(mapped.reshape(-1), rows * K + 2, one)
    assert np.array_equal(one, mapped[rows, 2])
    assert not fetch_mapped(mapped[:, 1:], rows, out[:, 1:])
    assert not fetch_mapped(probs, rows, out)
    np.save(tmp_path / "other.npy", probs[::-1])
    (tmp_path / "other.npy").replace(path)
    assert not fetch_mapped(mapped, rows, out)
    path.unlink()
    assert not fetch_mapped(mapped, rows, out)


def test_room_is_used_again_but_never_while_somebody_holds_it(points, tmp_path):
    probs = points[0]
    parts = nacp.open_parts(write_parts(tmp_path / "parts", "npy", probs))
    places = {parts[i : i + 100].ctypes.data for i in range(0, N, 100)}
    assert len(places) <= 2
    held = [parts[i : i + 100][7:9].T for i in range(0, N, 100)]  # views of what was handed out
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda i: parts[i : i + 50], range(0, N, 50)))
    assert all(np.array_equal(each, probs[100 * i + 7 : 100 * i + 9].T) for i, each in enumerate(held))
    assert np.array_equal(np.concatenate(read), probs)


def test_whatever_a_mapped_file_is_called_it_is_read(points, tmp_path):
    probs, _, noisy = points
    expected, maps = nacp.calibrate(probs, noisy, noise=0.2), []
    for name in ("a b.npy", "a\rb.npy", "a\nb.npy", "a (deleted).npy"):
        np.save(tmp_path / name, probs)
        maps.append(np.load(tmp_path / name, mmap_mode="r"))
        assert all(same(nacp.calibrate(each, noisy, noise=0.2), expected) for each in maps)


def test_a_mapped_file_that_has_become_shorter_is_refused(points, tmp_path):
    code = (
        "import sys, numpy as np, nacp\n"
        "cut, mapped, labels = sys.argv[1], np.load(sys.argv[1], mmap_mode='r'), np.load(sys.argv[2])\n"
        "cal = nacp.calibrate(mapped, labels, noise=0.2)\n"
        "np.save(cut, mapped[:10].copy())\n"
        "for call in (lambda: nacp.calibrate(mapped, labels, noise=0.2), lambda: cal.predict_set(mapped)):\n"
        "    try: call()\n"
        "    except nacp.InputError as error: print(error)\n"
    )
    np.save(tmp_path / "probs.npy", points[0])
    np.save(tmp_path / "labels.npy", points[2])
    told = [sys.executable, "-c", code, str(tmp_path / "probs.npy"), str(tmp_path / "labels.npy")]
    found = subprocess.run(told, capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == [f"{tmp_path}/probs.npy has changed since it was opened; open it again"] * 2


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_rows_of_one_part_are_looked_at_where_they_lie(points, tmp_path, kind):
    probs = points[0]
    parts = nacp.open_parts(write_parts(tmp_path / "parts", kind, probs))
    for start, stop in ((0, 1), (1, 700), (10, 20), (690, 710), (1400, N), (5, 5), (N, N)):
        found = parts.look(slice(start, stop))
        assert np.array_equal(found, probs[start:stop])
        inside = any(low <= start < stop <= high for low, high in pairwise(CUTS))
        assert found.flags.writeable != inside  # a copy may be written to
    odd = json.dumps({"p": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode() + b" "
    odd += b" " * (-len(odd) % 4 + 1)
    half = np.full((2, 2), 0.5, np.float32)
    (tmp_path / "odd.safetensors").write_bytes(len(odd).to_bytes(8, "little") + odd + half.tobytes())
    apart = nacp.open_parts(tmp_path / "odd.safetensors").look(slice(0, 2))
    assert apart.flags.aligned
    assert np.array_equal(apart, half)


def test_bfloat16_is_read_as_float32(tmp_path):
    bits = np.array([[0x3F00, 0x3E80, 0x3E80], [0x3F80, 0x0000, 0x0000]], dtype="<u2")
    header = json.dumps({"p": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bits.tobytes())
    parts = nacp.open_parts(tmp_path / "a.safetensors")
    assert parts.dtype == np.float32
    assert np.asarray(parts).tolist() == [[0.5, 0.25, 0.25], [1, 0, 0]]
    assert parts[[1], [0, 2]].tolist() == [[1, 0]]


def test_columns_are_found_by_name_and_labels_may_be_parts(points, tmp_path):
    probs, _, noisy = points
    parts = nacp.open_parts(write_parts(tmp_path / "parts", "parquet", probs))
    labels = nacp.open_parts(write_parts(tmp_path / "labels", "npy", noisy))
    assert labels.shape == (N,)
    order = np.random.default_rng(0).permutation(K)
    classes = [f"class {j}" for j in order]
    named = np.array([f"class {j}" for j in noisy])
    found = nacp.calibrate(parts, named, noise=0.2, classes=classes, guarantee="none")
    plain = nacp.calibrate(probs, labels, noise=0.2, guarantee="none")
    assert found.threshold == plain.threshold
    inverse = np.argsort(order)
    assert np.array_equal(inverse[noisy], nacp.points.check_labels(named, N, K, classes))


# Reads


@pytest.mark.parametrize("guarantee", ["none", "pac"])
@pytest.mark.parametrize("score", ["hps", "aps"])
def test_many_rows_of_a_file_are_read_once(points, score, guarantee, tmp_path):
    """One read checks them, scores the labels, counts, and keeps what is asked about later."""
    given, _, noisy = points
    np.save(tmp_path / "probs.npy", given)
    probs, reads = np.load(tmp_path / "probs.npy", mmap_mode="r"), []
    with tuned(hint_pairs=1000, counted_pairs=1000), watching(reads.append):
        nacp.calibrate(probs, noisy, noise=0.2, score=score, guarantee=guarantee)
    # And an eighth twice, for the hint; the first bets are on thresholds above what was kept.
    least = 1 if nacp.engine.engine_name() == "native" else 4
    assert N < sum(reads) <= (least + 0.25 + 0.25 * (guarantee == "pac")) * N


def test_rows_are_checked_before_anything_is_concluded(points):
    """Whatever reads first: the sentence is that of the first wrong row, and nothing comes out."""
    probs, _, noisy = (each.copy() for each in points)
    for row in (1800, 1234):
        probs[row, 3] = np.nan
    for later in (False, True):
        with pytest.raises(nacp.InputError, match="probs holds NaN, first in row 1234"):
            open_rows(probs, later=later).check()
    for where in (slice(0, 1500), np.array([1800]), slice(1700, 1900)):
        with pytest.raises(nacp.InputError, match="probs holds NaN, first in row 1234"):
            open_rows(probs, later=True)[where]
    rows = open_rows(probs, later=True)
    assert rows[slice(1300, 1400)].shape == (100, K)  # these are as they should be
    with pytest.raises(nacp.InputError, match="first in row 1234"):
        rows.some(np.arange(3))
    for guarantee in ("none", "pac", "expected"):
        with pytest.raises(nacp.InputError, match="probs holds NaN, first in row 1234"):
            nacp.calibrate(probs, noisy, noise=0.2, guarantee=guarantee)


# What is wrong with parts


def cut_off(folder):
    path = folder / "part 10.npy"
    path.write_bytes(path.read_bytes()[:-7])


def other_type(folder):
    np.save(folder / "part 11.npy", np.full((1, K), 1 / K))


def other_columns(folder):
    np.save(folder / "part 11.npy", np.full((1, K + 1), 1 / (K + 1), dtype=np.float32))


def by_column(folder):
    np.save(folder / "part 11.npy", np.asfortranarray(np.full((2, K), 1 / K, dtype=np.float32)))


def other_kind(folder):
    (folder / "part 12.parquet").write_bytes(b"")


def a_stranger(folder):
    (folder / "notes.txt").write_text("no part")


def a_folder(folder):
    (folder / "more").mkdir()


def no_array(folder):
    (folder / "part 10.npy").write_bytes(b"something else")


WRONG = {
    cut_off: r"part 10\.npy is cut off: 7 bytes are missing",
    other_type: r"part 11\.npy holds float64, and .*part 9\.npy float32",
    other_columns: r"part 11\.npy has the shape \(1, 101\), and .*part 9\.npy \(1, 100\)",
    by_column: r"part 11\.npy is stored column by column",
    other_kind: r"part 12\.parquet is beside part 9\.npy",
    a_stranger: r"notes\.txt is no part: these end in \.npy, \.safetensors or \.parquet",
    a_folder: r"more is a folder",
    no_array: r"part 10\.npy cannot be read as \.npy",
}


@pytest.mark.parametrize("spoil", WRONG, ids=lambda each: each.__name__)
def test_what_is_wrong_with_a_part_is_said(points, spoil, tmp_path):
    folder = write_parts(tmp_path / "parts", "npy", points[0][:3], [0, 1, 3])
    assert nacp.open_parts(folder).shape == (3, K)
    spoil(folder)
    with pytest.raises(nacp.InputError, match=WRONG[spoil]):
        nacp.open_parts(folder)


def test_what_names_no_parts_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden.npy").write_bytes(b"")
    with pytest.raises(nacp.InputError, match="is a folder without parts: files that end in"):
        nacp.open_parts(tmp_path / "empty")
    with pytest.raises(nacp.InputError, match="is a pattern that no file matches"):
        nacp.open_parts(str(tmp_path / "*.npy"))
    with pytest.raises(nacp.InputError, match=r"x\.npy does not exist"):
        nacp.open_parts(tmp_path / "x.npy")
    with pytest.raises(nacp.InputError, match="path is empty"):
        nacp.open_parts([])


@pytest.mark.parametrize("kind", ["npy", "safetensors", "parquet"])
def test_a_part_that_changes_is_refused(points, kind, tmp_path):
    probs, _, noisy = points
    folder = write_parts(tmp_path / "parts", kind, probs)
    parts = nacp.open_parts(folder)
    changed = sorted(folder.iterdir())[0]
    os.utime(changed, ns=(1, 1))
    with pytest.raises(nacp.InputError, match="has changed since it was opened; open it again"):
        nacp.calibrate(parts, noisy, noise=0.2)
    changed.unlink()
    with pytest.raises(nacp.InputError, match="has changed since it was opened"):
        parts[:]


def test_damaged_tensors_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    whole = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    damaged = [
        b"", b"\xff" * 8, (10).to_bytes(8, "little") + b"no json at all", *(
            len(header).to_bytes(8, "little") + header + b"\0" * 24
            for header in (
                json.dumps({"p": whole | change}).encode()
                for change in (
                    {"data_offsets": [0, 20]}, {"shape": [2]}, {"shape": None}, {"shape": [-2, -3]}
                )
            )
        )
    ]  # fmt: skip
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(nacp.InputError, match=r"cannot be read as \.safetensors"):
            nacp.open_parts(path)
    header = json.dumps({"a": whole, "b": whole}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 24)
    with pytest.raises(nacp.InputError, match="holds no 'probs', but a, b; name one by key="):
        nacp.open_parts(path)
    assert nacp.open_parts(path, "b").shape == (2, 3)


# The command line


@pytest.mark.parametrize("kind", ["npy", "safetensors", "parquet"])
def test_a_folder_on_the_command_line_is_its_matrix(points, kind, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from nacp.cli.main import app

    probs, labels, noisy = (each[:600] for each in points)
    monkeypatch.chdir(tmp_path)
    write_parts(tmp_path / "parts", kind, probs, [0, 1, 399, 600])
    write_parts(tmp_path / "noisy", "npy", noisy, [0, 10, 600])
    np.save("probs.npy", probs)
    np.save("noisy.npy", noisy)
    np.save("true.npy", labels)
    said = []
    for matrix, given in (("parts", "noisy"), ("probs.npy", "noisy.npy")):
        for command in (
            ["calibrate", matrix, given, "--noise", "0.2", "-o", "cal.json"],
            ["predict", "cal.json", matrix, "-o", "-"],
            ["evaluate", "cal.json", matrix, "true.npy", "--json"],
            ["compare", matrix, given, "--noise", "0.2", "--score", "hps"],
        ):
            found = CliRunner().invoke(app, command)
            assert found.exit_code in (0, 1), (command, found.output)
            said.append(found.stdout.replace("class ", "").replace('"', "").replace(matrix, "MATRIX"))
    assert said[:4] == said[4:]


MEASURED = """
import sys
import numpy as np
import nacp
from nacp.cli.main import app
def peak():  # in MB; what getrusage says begins with that of who started this process
    (line,) = [each for each in open("/proc/self/status") if each.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
source, labels, true = sys.argv[1:]
probs = nacp.open_parts(source) if source.endswith("parts") else np.load(source, mmap_mode="r")
labels, true = np.load(labels), np.load(true)
nacp.calibrate(probs[:3000], labels[:3000], noise=0.2)  # what is imported on the way
before = peak()
cal = nacp.calibrate(probs, labels, noise=0.2)
found = nacp.evaluate(cal.predict_set(probs), true)
cal.save(source + ".json")
sys.argv = ["nacp", "predict", source + ".json", source, "-o", source + ".npz"]
try:
    app()
except SystemExit as end:
    assert not end.code, end
print(peak() - before, cal.native_threshold.hex())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="how memory is measured, and let go of")
def test_a_large_file_is_read_in_little_memory(tmp_path):
    """160 MB: what is kept of them is a few blocks, and some numbers for each row."""
    base, labels = twins.simulate("imagenet-resnet50", n=2500, random_state=0)
    probs = np.concatenate([np.roll(base, i, axis=1) for i in range(16)])
    true = np.concatenate([(labels + i) % 1000 for i in range(16)])
    noisy = nacp.UniformNoise(0.2).sample(true, 1000, random_state=0)
    for name, array in (("probs", probs), ("noisy", noisy), ("true", true)):
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "parts").mkdir()
    for i in range(3):
        np.save(tmp_path / "parts" / f"{i}.npy", probs[15_000 * i : 15_000 * (i + 1)])
    expected = nacp.calibrate(probs, noisy, noise=0.2).native_threshold
    for source in ("probs.npy", "parts"):
        words = [
            sys.executable,
            "-c",
            MEASURED,
            *(tmp_path / each for each in (source, "noisy.npy", "true.npy")),
        ]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-2:]
        assert float(told[0]) < 120
        assert float.fromhex(told[1]) == expected
