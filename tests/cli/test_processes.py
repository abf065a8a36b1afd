"""The command in real processes: signals, pipes and terminals."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import nacp
from tests.cli.command_line import done, json_lines

NACP = [sys.executable, "-c", "import _nacp_command; _nacp_command.main()"]
HEARD = [sys.executable, "-c", "import _nacp_command; print('on', flush=True); _nacp_command.main()"]
PREDICT = ["predict", "cal.json", "large.npy", "-o"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A folder with enough rows that every command takes a while."""
    path = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    probs = rng.random((200_000, 50), dtype=np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) > rng.random((len(probs), 1))).argmax(axis=1)
    names = ["dög", *(f"c{i}" for i in range(1, 50))]
    np.save(path / "large.npy", probs)
    np.save(path / "part.npy", probs[:2000])
    np.save(path / "labels.npy", labels)
    np.save(path / "few.npy", labels[:2000])
    for name, classes in (("cal", None), ("named", names)):
        given = labels if classes is None else np.take(classes, labels)
        nacp.calibrate(probs, given, noise=0, guarantee="none", classes=classes).save(path / f"{name}.json")
    return path


@pytest.fixture(autouse=True)
def folder(large, monkeypatch):
    monkeypatch.chdir(large)


def interrupted(arguments, start=HEARD, delay=None, number=signal.SIGINT):
    """Start a command, send a signal after a delay or when a file appears, and return what it printed.

    It must end by the signal and leave nothing behind.
    """
    before, begin = set(os.listdir()), time.monotonic()
    process = subprocess.Popen(
        [*start, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert start is not HEARD or process.stdout.readline() == "on\n"
    while process.poll() is None:
        time.sleep(0.01)
        if len(os.listdir()) > len(before) if delay is None else time.monotonic() > begin + delay:
            break
    time.sleep(0.05)
    process.send_signal(number)
    printed, said = process.communicate(timeout=60)
    left = set(os.listdir()) - before
    for name in left:
        os.remove(name)
    assert (process.returncode, left) == (128 + number, set())
    return printed, said


@pytest.mark.parametrize("out", ["new.jsonl", "new.csv", "new.parquet", "new.npz"])
def test_ctrl_c_while_writing_leaves_nothing_behind(out):
    assert interrupted([*PREDICT, out]) == ("", "Interrupted.\n")


@pytest.mark.parametrize("delay", [0.0, 0.4, 0.8])
def test_ctrl_c_is_heard_at_any_time(delay):
    work = ["compare", "large.npy", "labels.npy", "--noise", "0.2"]
    assert interrupted(work, delay=delay) == ("", "Interrupted.\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_leaves_nothing_behind(number):
    assert interrupted([*PREDICT, "new.jsonl"], NACP, number=number) == ("", "")


def test_the_package_runs_as_a_module():
    module = [sys.executable, "-m", "nacp"]
    work = ["calibrate", "large.npy", "missing.npy", "--noise", "0.2"]
    ended = subprocess.run([*module, *work], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "Error: missing.npy does not exist\n")
    assert interrupted([*PREDICT, "new.jsonl"], module) == ("", "Interrupted.\n")


def test_a_closed_pipe_is_no_error():
    work = [*NACP, "predict", "cal.json", "part.npy", "-o", "-"]
    process = subprocess.Popen(work, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), said) == (141, b"")


FULL = "Error: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        ("calibrate --help >/dev/full", 2, FULL),
        ("plan --k 9 --noise .1 >/dev/full", 2, FULL),
        ("predict cal.json part.npy -o - >/dev/full", 2, FULL),
        ("predict cal.json part.npy -o new.npz 2>/dev/full", 0, ""),
        ("predict cal.json missing.npy -o new.npz 2>/dev/full", 2, ""),
        ("plan --k 9 --noise .1 >&-", 2, "Error: standard output is closed\n"),
        ("predict cal.json - -o new.npz <&-", 2, "Error: standard input is closed; give a file\n"),
        ("predict cal.json part.npy -o new.jsonl", 2, "Error: new.jsonl: File too large\n"),
        (
            "evaluate cal.json part.npy few.npy",
            2,
            "Error: NACP_ENGINE must be numpy or native or torch, not 'zz'\n",
        ),
    ],
)
def test_faults_of_the_system_get_one_sentence_and_never_exit_code_1(tmp_path, large, shell, code, said):
    """Exit code 1 says that a promise was broken."""
    for name in ("cal.json", "part.npy", "few.npy"):
        (tmp_path / name).symlink_to(large / name)
    before = sorted(os.listdir(tmp_path))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    environment |= {"NACP_ENGINE": "zz"} if "NACP_ENGINE" in said else {}
    prefix = "ulimit -f 1 &&" if "too large" in said else ""
    command = f"{prefix} {shlex.join(NACP)} {shell}"
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    ended = subprocess.run(["bash", "-c", command], **options)
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.startswith(said)
    assert ended.stderr.count("\n") == min(code // 2, len(said))
    if code:
        assert sorted(os.listdir(tmp_path)) == before, "nothing is left behind"


@pytest.mark.slow
def test_standard_output_that_has_ascii_only_gets_all_sets(tmp_path):
    done("predict", "named.json", "part.npy", "-o", tmp_path / "a.jsonl")

    def printed(*arguments):
        ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        ended = subprocess.run([*NACP, *arguments], env=ascii_only, capture_output=True, text=True)
        assert ended.returncode in (0, 1), ended.stderr
        return ended.stdout

    sets = [json.loads(line) for line in printed("predict", "named.json", "part.npy", "-o", "-").splitlines()]
    assert sets == json_lines(tmp_path / "a.jsonl")
    assert any("dög" in line for line in sets)


def on_a_terminal(*arguments, code=0, both=False, **environment):
    """Run with standard error, or both streams, on a terminal, and return what appears there."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [*NACP, *arguments],
        stdout=other if both else subprocess.DEVNULL,
        stderr=other,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment,
    )
    os.close(other)
    seen = b""
    try:
        while part := os.read(main, 1 << 16):
            seen += part
    except OSError:  # the terminal is gone
        pass
    os.close(main)
    assert process.wait(timeout=60) == code or code is None
    return seen.decode()


@pytest.mark.slow
def test_a_terminal_shows_progress_unless_it_is_to_be_quiet(tmp_path):
    work = ["predict", "cal.json", "part.npy", "-o", str(tmp_path / "new.npz")]
    seen = on_a_terminal(*work)
    assert "predicting" in seen
    assert "100%" in seen
    assert "\x1b[38" in seen  # colours
    assert "\x1b[38" not in on_a_terminal(*work, NO_COLOR="1")
    assert on_a_terminal(*work, "--quiet") == ""
    assert subprocess.run([*NACP, *work], capture_output=True, check=True).stderr == b""


def test_a_calibration_shows_its_passes_over_the_rows(tmp_path):
    work = ["calibrate", "large.npy", "labels.npy", "--noise", "0.2", "-o", str(tmp_path / "c.json")]
    passes = re.findall(r"calibrating, pass (\d+) .*?(\d+)%", on_a_terminal(*work))
    passes = [(int(number), int(share)) for number, share in passes]
    assert passes == sorted(passes)
    assert len({share for _, share in passes}) > 1
