"""The standing audit (`make audit`) runs, finds no broken promise, and would find one."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "audit.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the benchmarks are not part of a distribution")


@pytest.mark.slow
def test_a_quick_audit_finds_no_broken_promise(tmp_path):
    command = [sys.executable, SCRIPT, "--quick", "--out", tmp_path / "audit.md"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NACP_THREADS": "1"})
    assert done.returncode == 0, done.stdout
    cells = int(done.stdout.split()[0])
    assert cells > 200
    assert (tmp_path / "audit.md").read_text(encoding="utf-8").count("\n") > cells


def test_a_broken_promise_fails(monkeypatch):
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    cells = [
        audit.Cell("a share", 0.1, False, lambda rng: rng.random() < 0.2),
        audit.Cell("a share that is kept", 0.2, False, lambda rng: rng.random() < 0.2),
        audit.Cell("a mean", 0.9, True, lambda rng: 0.85 + 0.04 * rng.random()),
        audit.Cell("a mean that is kept", 0.87, True, lambda rng: 0.85 + 0.04 * rng.random()),
        audit.Cell("one of two groups", 0.1, False, lambda rng: rng.random(2) < [0.05, 0.2]),
    ]
    monkeypatch.setattr(audit, "CELLS", cells)
    assert [audit.run(i, 1000).failed for i in range(5)] == [True, False, True, False, True]
