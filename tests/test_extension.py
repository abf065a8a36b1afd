"""A score, a noise model and a guarantee from outside of the package serve everywhere that ours do."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.guarantees import GUARANTEES
from nacp.guarantees.base import Corrected
from nacp.noise import NOISES
from nacp.noise.base import Noise
from nacp.noise.matrices import DenseMatrix
from nacp.paper import twins
from nacp.scores import SCORES
from nacp.scores.base import PointwiseScore

K = 10


@dataclass(frozen=True)
class Root(PointwiseScore):
    name: ClassVar[str] = "root"
    span: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    def formula(self, entry):
        return -np.sqrt(entry.p)


@dataclass(frozen=True)
class SinkNoise(Noise):
    rate: float
    name: ClassVar[str] = "sink"

    def matrix(self, k):
        return DenseMatrix((1 - self.rate) * np.eye(k) + self.rate * (np.arange(k) == 0))

    def _draw(self, labels, k, rng):
        return np.where(rng.random(len(labels)) < self.rate, 0, labels)

    def describe(self, k):
        return f"a label becomes class 0 with probability {self.rate:g}"


@dataclass(frozen=True)
class Cautious(Corrected):
    name: ClassVar[str] = "cautious"
    takes_classes: ClassVar[bool] = True

    def correction(self, problem):
        return 1 / np.sqrt(problem.n)

    def promise(self, alpha):
        return f"a cautious promise at {alpha:g}"


NOISE = SinkNoise(0.1)
ASKED = {"noise": NOISE, "score": "root", "guarantee": "cautious"}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for table, member in ((SCORES, Root), (NOISES, SinkNoise), (GUARANTEES, Cautious)):
        monkeypatch.setitem(table, member.name, member)


@pytest.fixture(scope="module")
def points():
    probs, labels = twins.simulate("cifar10", n=2000, random_state=0)
    return probs, labels, NOISE.sample(labels, k=K, random_state=0)


def reloaded(value, path):
    value.save(path)
    return type(value).load(path) if hasattr(type(value), "load") else nacp.load(path)


def test_a_calibration_finds_the_threshold_and_is_saved(points, tmp_path):
    probs, labels, noisy = points
    cal = nacp.calibrate(probs, noisy, **ASKED)
    assert (cal.score, cal.noise, cal.guarantee) == (Root(), NOISE, Cautious())
    assert cal.correction == 1 / np.sqrt(2000)
    assert cal.promise == "a cautious promise at 0.1"
    assert NOISE.describe(K) in cal.assumptions
    assert cal.predict_set(probs).contains(labels).mean() > 0.9
    again = reloaded(cal, tmp_path / "cal.json")
    assert again == cal
    assert again.predict_set(probs[:50]).to_lists() == cal.predict_set(probs[:50]).to_lists()


def test_a_threshold_for_each_class_if_the_guarantee_takes_classes(points, tmp_path, monkeypatch):
    probs, _, noisy = points
    cal = nacp.calibrate(probs, noisy, by="class", **ASKED)
    assert len(cal.thresholds) == K
    assert "a cautious promise" in cal.promise
    assert reloaded(cal, tmp_path / "cal.json") == cal
    monkeypatch.setattr(Cautious, "takes_classes", False)
    with pytest.raises(nacp.InputError, match='"cautious" cannot be found for groups of classes'):
        nacp.calibrate(probs, noisy, by="class", **ASKED)


def test_it_is_planned_and_compared_beside_the_others(points):
    probs, _, noisy = points
    plan = nacp.plan(k=K, noise=NOISE, n=2000)
    (row,) = [each for each in plan.rows if each.guarantee == Cautious()]
    assert row.excess == pytest.approx(1 / np.sqrt(2000))
    assert row.n_needed == pytest.approx(10_000, abs=1)
    found = nacp.compare(probs, noisy, noise=NOISE, scores=["hps", "root"])
    (mine,) = [each for each in found.rows if (each.score, each.guarantee) == ("root", "cautious")]
    assert mine.threshold == nacp.calibrate(probs, noisy, **ASKED).threshold


def test_streams_follow_it(points, tmp_path):
    probs, _, noisy = points
    cal = nacp.calibrate(probs, noisy, **ASKED)
    stream = nacp.Calibrator(K, noise=NOISE, score="root")
    stream.update(probs, noisy)
    assert stream.finish(guarantee="cautious").threshold == cal.threshold
    monitor, online = nacp.Monitor(cal), nacp.OnlineCalibrator(start=cal)
    for each in (monitor, online):
        each.update(probs, noisy)
    for each in (stream, monitor, online):
        assert str(reloaded(each, tmp_path / "state")) == str(each)


def test_the_report_shows_it(points, tmp_path):
    probs, _, noisy = points
    nacp.make_report(probs, noisy, **ASKED).save(tmp_path / "report.html")
    shown = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in ("Score: Root.", "Guarantee: Cautious.", "cautious promise at 0.1", NOISE.describe(K)):
        assert words in shown


def test_the_command_line_knows_its_name(points, tmp_path):
    probs, _, noisy = points
    names = [str(tmp_path / f"{name}.npy") for name in ("probs", "labels", "noisy")]
    for name, values in zip(names, points, strict=True):
        np.save(name, values)
    estimate = nacp.NoiseEstimate(
        noise=NOISE,
        rate=0.1,
        wrong=0.09,
        n=0,
        k=K,
        method="stated",
        assumption="it is known",
        why="it is stated",
    )
    estimate.save(tmp_path / "noise.json")
    out = str(tmp_path / "cal.json")
    given = ["--noise", str(tmp_path / "noise.json"), "--score", "root", "--guarantee", "cautious"]
    found = CliRunner().invoke(app, ["calibrate", names[0], names[2], *given, "-o", out, "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["guarantee"] == "cautious"
    assert nacp.load(out).threshold == nacp.calibrate(probs, noisy, **ASKED).threshold
    tested = CliRunner().invoke(app, ["evaluate", out, names[0], names[1]])
    assert (tested.exit_code, "a cautious promise" in " ".join(tested.output.split())) == (0, True)
