"""The option --noise-other."""

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.full(3, 0.5), size=600)
TRUE = (PROBS.cumsum(axis=1) > RNG.random((600, 1))).argmax(axis=1)
NOISY = nacp.UniformNoise(0.2).sample(TRUE, 3, random_state=0)


def run(*words):
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def test_the_rate_of_wrong_labels_is_converted(tmp_path):
    """Of 3 classes a third of the labels that are replaced stay right: .2 wrong are .3 replaced."""
    np.save(tmp_path / "probs.npy", PROBS)
    np.save(tmp_path / "labels.npy", NOISY)
    files = [f"{tmp_path}/probs.npy", f"{tmp_path}/labels.npy"]
    code, said = run("calibrate", *files, "--noise-other", "0.1", "-o", f"{tmp_path}/cal.json")
    assert code == 0, said
    found = nacp.load(tmp_path / "cal.json")
    assert found.noise == nacp.UniformNoise.other(0.1, 3)
    assert found.noise.rate == pytest.approx(0.15, abs=1e-15)
    assert found == nacp.calibrate(PROBS, NOISY, noise=nacp.UniformNoise.other(0.1, k=3))
    for words, message in (
        (["--noise-other", "0.1", "--noise", "0.2"], "--noise-other is a rate by itself, and --noise is one"),
        (["--noise-other", "0.1", "--noise-interval", "0.1", "0.2"], "--noise-other is a rate by itself"),
        (["--noise-other", "0.7"], "--noise-other must lie in [0, 2/3)"),
    ):
        code, said = run("calibrate", *files, *words)
        assert code == 2
        assert message in said
    planned = [run("plan", "--k", "3", *words)[1] for words in (["--noise-other", "0.2"], ["--noise", "0.3"])]
    assert planned[0] == planned[1]
    shown = " ".join(run("calibrate", "--help")[1].replace("│", " ").split())
    assert "labels that were replaced by a random one, perhaps the same" in shown
