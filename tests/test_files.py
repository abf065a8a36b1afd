"""A saved calibration is plain JSON and comes back as it was; any other file is refused."""

import json
import os
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import date
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.errors import InputError
from nacp.files import rebuild, sealed, write_whole
from nacp.guarantees import GUARANTEES
from nacp.noise import NOISES
from nacp.scores import SCORES

K = 4
RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(K), 150)
PROBS = RNG.dirichlet(np.ones(K), size=len(LABELS))
PROBS = 0.5 * PROBS + 0.5 * np.eye(K)[RNG.permutation(LABELS)]
NEW = RNG.dirichlet(np.ones(K), size=50)


def half_minus(p):
    return 0.5 - p


SCORE_LIST = [
    nacp.HPS(),
    nacp.APS(seed=2**40),
    nacp.APS(randomized=False),
    nacp.RAPS(penalty=0.1, free=1),
    nacp.SAPS(penalty=0.3),
    nacp.Margin(),
    nacp.TopK(),
    nacp.Precomputed(),
    nacp.Custom(half_minus),
]
NOISE_LIST = [
    None,
    nacp.UniformNoise(0.1),
    nacp.UniformNoise.other(0.1, k=K),
    nacp.RandomizedResponse(3.3),
    nacp.GroupNoise([0, 0, 1, 1], 0.1),
    nacp.GroupNoise(["cat", "cat", "dog", "dog"], {"cat": 0.1, "dog": 0.2}),
    nacp.MatrixNoise(0.9 * np.eye(K) + 0.1 * RNG.dirichlet(np.ones(K), size=K)),
    nacp.LowRankNoise(np.full(K, 0.9), np.full((K, 1), 0.1), np.full((K, 1), 1 / K)),
    nacp.AnnotatorNoise([0.9 * np.eye(K) + 0.1 / K, 0.7 * np.eye(K) + 0.3 / K], [2, 1]),
    NOISES["by-group"]([0.9 * np.eye(K) + 0.1 / K, 0.7 * np.eye(K) + 0.3 / K], [0.5, 0.5], ["a", "b"]),
]
GUARANTEE_LIST = [
    nacp.Uncorrected(),
    nacp.SplitConformal(),
    nacp.NACP(delta=0.05),
    nacp.ACNL(),
    nacp.CRCP(priors=[0.1, 0.2, 0.3, 0.4]),
    nacp.PAC(delta=0.3),
    nacp.Binomial(delta=0.3),
    nacp.Expected(),
]


PAIRS = [
    (noise, guarantee)
    for noise in NOISE_LIST
    for guarantee in GUARANTEE_LIST
    if guarantee.applies(noise, "last") is None
]


def calibrate(**options):
    given = {"noise": 0.1, "alpha": 0.4, "guarantee": "none"} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
        return nacp.calibrate(PROBS, given.pop("labels", LABELS), **given)


def strict(text):
    """Parse JSON as the standard has it, without NaN and Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def reload(cal, path, **options):
    cal.save(path)
    strict(path.read_text(encoding="utf-8"))
    return nacp.load(path, **options)


def assert_same(again, cal):
    assert again == cal
    assert (again.promise, str(again)) == (cal.promise, str(cal))
    assert again.predict_set(NEW).to_lists() == cal.predict_set(NEW).to_lists()


def test_everything_that_can_be_saved_is_on_these_lists():
    assert {type(score) for score in SCORE_LIST} == {*SCORES.values(), nacp.Custom}
    assert {type(noise) for noise in NOISE_LIST} == {*NOISES.values(), type(None)}
    assert {type(guarantee) for guarantee in GUARANTEE_LIST} == set(GUARANTEES.values())


@pytest.mark.parametrize(("noise", "guarantee"), PAIRS, ids=lambda part: type(part).__name__)
def test_what_is_loaded_is_what_was_saved(noise, guarantee, tmp_path):
    for score in SCORE_LIST if guarantee.name in ("none", "split") else SCORE_LIST[:2]:
        cal = calibrate(score=score, noise=noise, guarantee=guarantee)
        options = {"score": half_minus} if isinstance(score, nacp.Custom) else {}
        again = reload(cal, tmp_path / "cal.json", **options)
        assert_same(again, cal)
        if isinstance(noise, nacp.GroupNoise):
            assert (again.noise.groups, again.noise.rate) == (noise.groups, noise.rate)


CLASSES = [
    ("ant", "bee", "cat", "dog"),
    ("été", "日本", 'quo"te', ""),
    (True, False, 2, 3.5),
    np.array([10, 20, 30, 40]),
    list(np.array(["ant", "bee", "cat", "dog"])),
]
INFINITE = [{"alpha": 0.001, "guarantee": "nacp"}, {"labels": LABELS % 3, "guarantee": "acnl", "noise": 0.0}]
OPTIONS = [
    *INFINITE,
    {"crossing": "first", "normalize": True},
    {"noise": nacp.UniformNoise(np.float32(0.125)), "alpha": np.float32(0.5)},
    {"noise": nacp.GroupNoise(np.arange(K) // 2, np.float32(0.125))},
    {"noise": nacp.GroupNoise([("cat", 1), ("cat", 1), ("dog", 1), ("dog", 1)], 0.1)},  # saved by number
    {"score": nacp.RAPS(penalty=np.float32(0.5), free=np.int64(1))},
    {"guarantee": nacp.NACP(delta=np.float32(0.125))},
    *({"labels": [names[y] for y in LABELS], "classes": names} for names in CLASSES),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_options_names_and_numpy_scalars_are_kept(options, tmp_path):
    cal = calibrate(**options)
    assert_same(reload(cal, tmp_path / "cal.json"), cal)
    assert (cal.threshold == np.inf) == any(options is each for each in INFINITE)


def test_class_names_that_json_does_not_have_are_refused(tmp_path):
    for names in ([date(2024, 1, day) for day in (1, 2, 3, 4)], [0.0, 1.0, 2.0, np.inf]):
        cal = calibrate(labels=[names[y] for y in LABELS], classes=names)
        with pytest.raises(InputError, match="classes must be text or numbers to be saved"):
            cal.save(tmp_path / "cal.json")
    assert not list(tmp_path.iterdir())


# Saving


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    old = calibrate(alpha=0.3)
    old.save(tmp_path / "cal.json")

    def interrupted(file, *_):
        if not isinstance(file, Path):
            file.write("{")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "cal.json", "w", interrupted)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            calibrate(alpha=0.2).save(tmp_path / "cal.json")
    assert nacp.load(tmp_path / "cal.json") == old
    assert [path.name for path in tmp_path.iterdir()] == ["cal.json"]


def save_often(path, number):
    text = str(number) * 100_000
    for _ in range(55):
        write_whole(path, "w", lambda file: file.write(text))


@pytest.mark.parametrize(
    "executor", [ThreadPoolExecutor, pytest.param(ProcessPoolExecutor, marks=pytest.mark.slow)]
)
def test_writers_at_once_leave_one_of_their_files(executor, tmp_path):
    path, numbers = tmp_path / "cal.json", range(1, 9)
    options = {} if executor is ThreadPoolExecutor else {"mp_context": get_context("spawn")}
    with executor(8 if executor is ThreadPoolExecutor else 3, **options) as pool:
        list(pool.map(save_often, [path] * 8, numbers))
    assert path.read_text() in [str(number) * 100_000 for number in numbers]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
def test_a_file_keeps_its_mode_and_a_new_one_has_the_usual_one(tmp_path):
    path, cal = tmp_path / "cal.json", calibrate()
    umask = os.umask(0o027)
    try:
        for mode in (0o640, 0o600, 0o664):
            if path.exists():
                path.chmod(mode)
            cal.save(path)
            assert path.stat().st_mode & 0o777 == mode
    finally:
        os.umask(umask)


def test_a_private_file_is_private_while_it_is_written(tmp_path):
    path = tmp_path / "cal.json"
    path.touch(mode=0o600)

    def look(file):
        assert [each.stat().st_mode & 0o077 for each in tmp_path.iterdir()] == [0, 0]

    write_whole(path, "w", look)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_are_followed_at_the_given_name_only(tmp_path, monkeypatch):
    victim, real, link = (tmp_path / name for name in ("victim", "real.json", "link.json"))
    victim.write_text("untouched")
    link.symlink_to(real)
    cal = calibrate()
    cal.save(link)
    assert (nacp.load(real), link.is_symlink()) == (cal, True)
    monkeypatch.setattr("nacp.files.secrets.token_hex", lambda _: "known")
    (tmp_path / ".nacp-known.partial").symlink_to(victim)
    with pytest.raises(FileExistsError) as caught:
        cal.save(real)
    assert caught.value.filename == str(real)
    assert victim.read_text() == "untouched"


KILLED = """
import os, signal, sys
from nacp.files import write_whole

def killed(file):
    file.write("half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

write_whole(sys.argv[1], "w", killed)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no kill -9")
def test_a_killed_process_leaves_the_old_file_and_what_can_be_told_and_deleted(tmp_path):
    path, cal = tmp_path / "cal.json", calibrate()
    cal.save(path)
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode == -9
    assert nacp.load(path) == cal
    (left,) = tmp_path.glob(".nacp-*.partial")
    left.unlink()
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path):
    path, cal = tmp_path / "cal.json", calibrate()
    cal.save(path)
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as a full disk, from that size on
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(path, "wb", lambda file: file.write(bytes(100_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert nacp.load(path) == cal
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_blamed_by_the_name_that_was_given(tmp_path):
    for folder in ("none", "/proc/self"):
        path = tmp_path / folder / "cal.json"
        with pytest.raises(OSError, match=r"No such file|denied") as caught:
            calibrate().save(path)
        assert caught.value.filename == str(path)


def test_what_is_saved_reaches_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: (sync(number), done.append(os.fstat(number).st_size)))
    monkeypatch.setattr(Path, "replace", lambda *names: (replace(*names), done.append("replaced")))
    write_whole(tmp_path / "cal.json", "wb", lambda file: file.write(bytes(12)))
    assert done[:2] == [12, "replaced"]
    assert len(done) == 3 or os.name == "nt", "the folder too"


# Refused


def refusal(path, content, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"\w") as caught:
        nacp.load(path, **options)
    assert caught.value.__cause__ is None
    return str(caught.value)


def changed(stored, **fields):
    """Return a file with other values of some fields and the checksum that fits."""
    return json.dumps(sealed(stored | fields))


def document(tmp_path, **options):
    calibrate(**options).save(tmp_path / "original.json")
    return json.loads((tmp_path / "original.json").read_text(encoding="utf-8"))


DAMAGED = {
    "alpha": [0, 1, "0.1", None, [0.1]],
    "n": ["many", None, 0, -5, 2.5],
    "k": ["many", None, 0, -5, 2.5, 10**11],
    "score": [None, 3, "hps", {}, {"name": "asp"}, {"name": "hps", "x": 1}, {"name": "aps", "seed": "x"}],
    "noise": [
        *(3, "uniform", {}, {"name": "u"}, {"name": "uniform", "rate": 2}, {"name": "matrix", "P": [[1]]}),
        {"name": "groups", "groups": ["a", "a", "b", "b"], "rate": [["a", 0.1]]},
        {"name": "groups", "groups": [["a"], ["a"], "b", "b"], "rate": 0.1},
        {"name": "groups", "groups": ["a", "b"], "rate": 0.1},
    ],
    "guarantee": [None, {}, {"name": "nap"}, {"name": "nacp", "delta": 2}, {"name": "acnl", "priors": "x"}],
    "crossing": ["middle", None],
    "correction": ["much", None, "nan", -3],
    "threshold": ["low", None, "nan", [0.5], 0.5, "inf"],
    "native_threshold": ["low", None, "nan", [0.5], 0.5, "inf"],
    "estimate": ["good", None, "nan", 1.5],
    "deviation": ["some", "nan", [0.5], -1],
    "obstacle": [3, ["none"]],
    "note": [3, ["none"]],
    "random_state": ["none", -1, 0.5],
    "classes": [4, ["ant", "bee"], ["ant", "ant", "bee", "cat"], [[0], [1], [2], [3]]],
    "normalize": ["no", None],
    "look": [None, -1, 0, 0.5],
    "looks": ["x", 0.5, 0],
    "warnings": [None, "doubtful", [3], {}],
    "widths": [["float8", "float64"], ["float64"], 64],
}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *(
            (content, "it is not JSON")
            for content in ("", "not JSON", '{"format": ', b"\xff\xfe\x00", b"\x80\x04K.")
        ),
        *(
            (text, "it has no format")
            for text in ("[]", "3", "null", '"nacp.calibration"', "{}", '{"format": "x"}')
        ),
        ("[" * 100_000, ""),
    ],
    ids=lambda part: repr(part[:20]),
)
def test_other_files_are_refused(content, words, tmp_path):
    assert f"is not a calibration file{words and ': '}{words}" in refusal(tmp_path / "cal.json", content)


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.5])
def test_another_version_is_refused(version, tmp_path):
    message = refusal(tmp_path / "cal.json", changed(document(tmp_path), version=version))
    assert f"has version {version!r}" in message
    assert "reads 1" in message


def test_a_changed_or_missing_part_is_found_by_the_checksum(tmp_path):
    stored, path = document(tmp_path), tmp_path / "cal.json"
    without = {name: value for name, value in stored.items() if name != "checksum"}
    for other in (stored | {"alpha": 0.9}, stored | {"more": 1}, without):
        assert "is damaged: its checksum does not fit" in refusal(path, json.dumps(other))
    path.write_text(json.dumps(dict(sorted(stored.items()))))  # laid out in another way
    nacp.load(path)
    for huge in (10**400, float("inf")):
        text = json.dumps(stored | {"n": huge}).replace("Infinity", "1e999")
        assert "is not a finite number" in refusal(path, text)
    twice = json.dumps(stored).replace('"alpha"', '"alpha": 0.9, "alpha"', 1)
    assert "it has a key twice" in refusal(path, twice)


def test_a_flipped_bit_never_changes_what_is_loaded(tmp_path):
    path = tmp_path / "cal.json"
    cal = calibrate(noise=nacp.UniformNoise(0.1, interval=(0.05, 0.15), confidence=0.95), guarantee="pac")
    cal.save(path)
    data = path.read_bytes()
    for at in range(0, len(data), 2):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at // 2 % 7]) + data[at + 1 :])
        try:
            assert nacp.load(path) == cal  # a blank in the layout
        except InputError:
            continue


@pytest.mark.parametrize("field", DAMAGED)
def test_a_damaged_or_missing_field_is_refused(field, tmp_path):
    stored, path = document(tmp_path), tmp_path / "cal.json"
    for value in DAMAGED[field]:
        assert "cannot be used" in refusal(path, changed(stored, **{field: value})), value
    del stored[field]
    assert field in refusal(path, changed(stored))


def test_a_refusal_names_the_file_the_field_and_the_known_names(tmp_path):
    stored, path = document(tmp_path), tmp_path / "cal.json"
    said = refusal(path, changed(stored, score={"name": "asp"}))
    assert "'asp'" in said
    assert "'aps'" in said
    said = refusal(path, changed(stored, n=0))
    assert said == f"{path} cannot be used: n must be a whole number of at least 1; found 0"
    np.save(tmp_path / "probs.npy", NEW)
    told = CliRunner().invoke(app, ["predict", str(path), str(tmp_path / "probs.npy")])
    assert told.exit_code == 2
    assert said in told.output, "and not an option of the command line"
    with pytest.raises(FileNotFoundError):
        nacp.load(tmp_path / "none.json")


def test_a_look_must_be_one_of_all_looks_however_many_there_are(tmp_path):
    """Before: an OverflowError when the calibration was printed."""
    path, stored = tmp_path / "cal.json", document(tmp_path, guarantee="pac")
    assert "look must lie between 1 and 3" in refusal(path, changed(stored, look=10**6, looks=3))
    path.write_text(changed(stored, look=10**6, looks=10**6))
    assert "with 67% of delta" in str(nacp.load(path))


@pytest.mark.parametrize("score", [nacp.HPS(), nacp.RAPS()], ids=["offset", "none"])
def test_a_threshold_that_is_not_the_native_one_is_refused(score, tmp_path):
    """The sets are made by native_threshold, so a reader who sees another threshold would be misled."""
    stored = document(tmp_path, score=score)
    assert stored["threshold"] == stored["native_threshold"] + score.offset
    for field in ("threshold", "native_threshold"):
        other = changed(stored, **{field: stored[field] + 1e-9})
        assert "threshold must be native_threshold" in refusal(tmp_path / "cal.json", other)
    impossible = changed(stored, threshold=6.0, native_threshold=6.0 - score.offset)
    if score.span[1] < 6:
        said = refusal(tmp_path / "cal.json", impossible)
        assert "threshold must be a threshold of HPS(), from 0 to 1; found 6.0" in said
    (tmp_path / "cal.json").write_text(changed(stored, threshold="inf", native_threshold="inf"))
    assert nacp.load(tmp_path / "cal.json").threshold == np.inf


MATRIX = {
    "name": "matrix",
    "P": (0.8 * np.eye(K) + 0.2 * np.roll(np.eye(K), 1, axis=1)).tolist(),
    "radius": 0.0,
    "confidence": 1.0,
}
RATES = {"name": "uniform", "rate": 0.1, "interval": [0.05, 0.2], "confidence": 1.0}


@pytest.mark.parametrize(
    "change",
    [
        {"guarantee": {"name": "binomial", "delta": 0.05}, "noise": MATRIX},
        {"guarantee": {"name": "split"}, "noise": MATRIX},
        {"guarantee": {"name": "split"}},
        {"guarantee": {"name": "acnl"}, "noise": RATES},
        {"guarantee": {"name": "none"}, "noise": MATRIX | {"radius": 0.1}},
        {"crossing": "first", "noise": RATES, "guarantee": {"name": "pac", "delta": 0.05}},
    ],
    ids=str,
)
def test_a_promise_that_does_not_hold_for_the_noise_is_refused(change, tmp_path):
    said = refusal(tmp_path / "cal.json", changed(document(tmp_path), **change))
    assert "cannot be used: guarantee" in said
    with pytest.raises(ValueError, match=r"\w"):
        calibrate(
            noise=rebuild("noise", NOISES, change.get("noise", {"name": "uniform", "rate": 0.1})),
            guarantee=rebuild("guarantee", GUARANTEES, change["guarantee"]),
            crossing=change.get("crossing", "last"),
        )


def test_a_score_function_is_not_in_the_file_and_must_be_given(tmp_path):
    cal = calibrate(score=half_minus)
    cal.save(tmp_path / "cal.json")
    text = (tmp_path / "cal.json").read_text(encoding="utf-8")
    assert "half_minus" in refusal(tmp_path / "cal.json", text)
    assert "score=" in refusal(tmp_path / "cal.json", text)
    assert nacp.load(tmp_path / "cal.json", score=half_minus) == cal
    assert nacp.load(tmp_path / "cal.json", score=nacp.Custom(half_minus)) == cal
