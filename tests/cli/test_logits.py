"""The option --logits."""

import numpy as np
from typer.testing import CliRunner

import nacp
from nacp.cli import app


def test_the_command_line_takes_logits(tmp_path):
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((400, 5))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (probs.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
    labels = nacp.UniformNoise(0.1).sample(truth, 5, random_state=0)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "truth.npy", truth)

    def run(line):
        done = CliRunner().invoke(app, line.replace("@", f"{tmp_path}/").split())
        return done.exit_code, done.output

    code, said = run("calibrate @logits.npy @labels.npy --noise 0.1 -o @cal.json")
    assert code == 2
    assert "logits.npy looks like logits" in said
    code, said = run("calibrate @logits.npy @labels.npy --noise 0.1 --logits -o @cal.json")
    assert code == 0, said
    expected = nacp.calibrate(logits, labels, noise=0.1, from_logits=True)
    assert nacp.load(tmp_path / "cal.json") == expected
    for line in (
        "evaluate @cal.json @logits.npy @truth.npy",
        "predict @cal.json @logits.npy -o @sets.jsonl",
        "diagnose @cal.json @logits.npy @labels.npy",
        "compare @logits.npy @labels.npy --noise 0.1 --logits --score hps",
        "noise model @logits.npy @labels.npy --logits -o @noise.json",
    ):
        assert run(line)[0] == 0, line
    code, said = run("calibrate @logits.npy @labels.npy --noise 0.1 --logits --normalize")
    assert code == 2
    assert "--logits makes probabilities that sum to 1" in said
