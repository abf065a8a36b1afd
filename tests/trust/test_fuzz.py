"""Some seconds of `scripts/fuzz.py`; docs/trust.md has the figures of longer runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUZZ = [sys.executable, str(ROOT / "scripts" / "fuzz.py")]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="its processes are forked, with a limit of memory"),
]


def test_no_input_ends_in_anything_but_a_documented_error():
    for module in ("pyarrow", "safetensors"):
        pytest.importorskip(module)
    env = os.environ | {"NACP_ENGINE": "native"}
    done = subprocess.run([*FUZZ, "--seconds", "25"], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"([\d,]+) inputs", done.stdout)[1].replace(",", "")) >= 1_000
