"""What people see first: names, help, printed results and the options of the command line."""

import io
import json
import pydoc
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.cli.terminal import complain
from nacp.wrapping import on_one_line

NAMES = ("cat", "dog", "owl")
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.full(3, 0.5), size=600)
TRUE = (PROBS.cumsum(axis=1) > RNG.random((600, 1))).argmax(axis=1)
NOISY = nacp.UniformNoise(0.2).sample(TRUE, 3, random_state=0)


def run(*words):
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


# Names and help


def test_dir_lists_what_is_public_and_nothing_else():
    listed = set(dir(nacp))
    assert {
        "NoiseAwareClassifier",
        "CoverageDisplay",
        "make_report",
        "datasets",
        "NoiseModelWarning",
    } <= listed
    assert set(nacp.__all__) <= listed
    assert not {"Any", "TYPE_CHECKING", "import_module", "annotations"} & listed
    assert all(getattr(nacp, name) is not None for name in listed)
    code = "import nacp; print([name for name in dir(nacp) if name not in nacp.__all__])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "['datasets', 'estimation', 'labels']\n"


def test_help_opens_with_names_of_types():
    functions = [
        nacp.calibrate, nacp.compare, nacp.diagnose, nacp.evaluate, nacp.coverage_by_class, nacp.plan,
        nacp.sensitivity, nacp.coverage_curve, nacp.noise_from_model, nacp.noise_from_audit,
        nacp.noise_from_annotators, nacp.choose_audit, nacp.make_report, nacp.Calibration,
        nacp.PredictionSets, nacp.NoiseAwareClassifier,
    ]  # fmt: skip
    for each in functions:
        shown = pydoc.plain(pydoc.render_doc(each))
        assert "numpy._typing" not in shown, each
    shown = pydoc.plain(pydoc.render_doc(nacp.calibrate))
    assert "calibrate(probs:'ArrayLike'" in "".join(shown.split())  # Pythons break lines differently


# Results


def test_an_evaluation_is_a_dictionary_that_json_takes():
    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none")
    found = nacp.evaluate(cal.predict_set(PROBS), TRUE)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["coverage"] == found.coverage
    assert tuple(told["coverage_interval"]) == found.coverage_interval
    assert tuple(told["size_interval"]) == found.size_interval
    assert pd.DataFrame([found.to_dict()]).loc[0, "mean_size"] == found.mean_size


def test_sets_are_a_table():
    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none", classes=NAMES)
    sets = cal.predict_set(PROBS)
    table = sets.to_frame()
    assert table["labels"].tolist() == sets.to_lists()
    assert table["size"].tolist() == sets.sizes.tolist()
    assert len(cal.predict_set(PROBS[:0]).to_frame()) == 0
    # Beside the rows that were kept of a larger table.
    kept = pd.DataFrame(PROBS, columns=NAMES)[::3]
    joined = kept.join(cal.predict_set(kept).to_frame(index=kept.index))
    assert joined["labels"].tolist() == sets[::3].to_lists()
    with pytest.raises(nacp.InputError, match="index must have 600 entries, one for each set; found 200"):
        sets.to_frame(index=kept.index)


def test_names_with_commas_are_told_apart():
    sets = nacp.PredictionSets([0, 2, 4], [0, 1, 1, 2], k=3, classes=("Cod, Pacific", "Hake", "Ling"))
    html = sets._repr_html_()
    assert "Cod, Pacific; Hake" in html
    assert "Hake, Ling" in html


def test_coverage_by_class_is_told_by_name_worst_first():
    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none", classes=NAMES)
    for noise, labels in ((None, TRUE), (0.2, NOISY)):
        found = nacp.coverage_by_class(cal.predict_set(PROBS), labels, noise=noise)
        title, header, *lines = str(found).splitlines()[: 2 + len(NAMES)]
        assert title == "Coverage by class."
        assert header.split() == ["class", "coverage", "interval", "labels"]
        assert [line.split()[0] for line in lines] == [NAMES[i] for i in found.worst_first()]
        worst = int(found.worst_first()[0])
        assert f"{found.coverage[worst]:.4f}" in lines[0]
        assert f"{found.low[worst]:.4f} to {found.high[worst]:.4f}" in lines[0]
        assert "array(" not in repr(found)
        assert NAMES[worst] in found._repr_html_()


def test_of_many_classes_the_worst_are_printed_and_the_rest_is_counted():
    labels = np.repeat(np.arange(50), 10)
    sets = nacp.PredictionSets(np.arange(501), labels, k=60)
    shown = str(nacp.coverage_by_class(sets, labels)).splitlines()
    assert shown[0] == "The 10 of 50 classes that are covered least."
    assert len(shown) == 2 + 10 + 2
    assert [line.split()[0] for line in shown[2:12]] == [str(i) for i in range(10)]


def test_estimates_diagnoses_and_sensitivities_have_html():
    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none")
    estimate = nacp.noise_from_audit(NOISY[:100], TRUE[:100], k=3, model="uniform")
    for found, words in (
        (estimate, "Uniform label noise with rate"),
        (nacp.diagnose(cal, PROBS, NOISY), "The noise model is not rejected"),
        (nacp.sensitivity(cal, PROBS, NOISY), "in doubt state the smaller one"),
    ):
        html = found._repr_html_()
        assert html.startswith("<div")
        assert words in html
        assert type(found).__name__ in html


def test_one_label_is_one_label():
    one = nacp.calibrate(PROBS[:1], NOISY[:1], noise=0.01, guarantee="none")
    assert "from 1 noisy label of 3 classes" in str(one)
    assert "from 600 noisy labels of" in str(nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none"))


# Noise


def test_an_estimate_from_the_model_calls_its_interval_approximate_and_says_which_side_is_safe(tmp_path):
    estimate = nacp.noise_from_model(PROBS, NOISY)
    said = on_one_line(estimate)
    assert "(approximate: 95% sure if what is assumed holds)" in said
    assert "(95% sure)" not in said
    assert "Above it, that is safe" in said
    assert "Below it, it is not: coverage is too low" in said
    exact = str(nacp.noise_from_audit(NOISY[:100], TRUE[:100], k=3, model="uniform"))
    assert "(95% sure)" in exact
    assert "approximate" not in exact
    np.save(tmp_path / "probs.npy", PROBS)
    np.save(tmp_path / "labels.npy", NOISY)
    code, told = run(
        "noise", "model", f"{tmp_path}/probs.npy", f"{tmp_path}/labels.npy", "-o", f"{tmp_path}/noise.json"
    )
    assert code == 0
    assert "(approximate: 95% sure" in " ".join(told.split())


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


def test_options_of_plan_have_the_names_of_other_commands_and_the_old_ones():
    new = run("plan", "--k", "10", "--noise", "0.1", "--excess", "0.02")
    old = run("plan", "--classes", "10", "--noise", "0.1", "--max-correction", "0.02")
    assert new == old
    assert new[0] == 0
    assert "--excess must lie strictly" in run("plan", "--k", "10", "--noise", "0.1", "--excess", "2")[1]
    assert "--k must be" in run("plan", "--k", "1", "--noise", "0.1")[1]


def test_an_audit_does_not_speak_of_probabilities_that_it_has_not():
    for noisy, clean, options, words in (
        ([0, 1, 5], [0, 1, 2], {"k": 3}, "noisy must lie from 0 to 2, for 3 classes; found 0 to 5"),
        ([0, 1], [0, 1, 2], {"k": 3}, "noisy must have one label for each of the 3 true ones"),
        ([0, 1], [0, 1], {"classes": ["a", "a"]}, "classes must hold 2 different names, one per class"),
        (["a", "b"], ["a", "b"], {"k": 2}, "noisy holds names such as 'a'"),
    ):  # fmt: skip
        with pytest.raises(nacp.InputError, match=words) as caught:
            nacp.noise_from_audit(noisy, clean, **options)
        assert "probs" not in str(caught.value)


def test_counts_are_written_with_separators(tmp_path):
    """Numbers of four digits or more, in what is printed and in what is refused; but not shapes."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(3, 0.3), 12_000)
    true = (probs.cumsum(axis=1) > rng.random((12_000, 1))).argmax(axis=1)
    noisy = nacp.UniformNoise(0.2).sample(true, 3, random_state=0)
    checked = nacp.calibrate(probs, noisy, clean=(np.arange(1500), true[:1500]))
    audited = nacp.noise_from_audit(noisy, true, k=3)
    plan = nacp.choose_audit(probs, noisy, budget=1200)
    part = (plan.rows[:1100], true[plan.rows[:1100]])
    followed = nacp.calibrate(probs, noisy, clean=part, audit=plan)
    result = nacp.evaluate(checked.predict_set(probs), true)
    by_model = nacp.calibrate(probs, noisy, noise=0.2)
    diagnosis = nacp.diagnose(by_model, probs, noisy, clean=(range(1500), true[:1500]))
    texts = [
        str(checked), checked.assumptions, str(audited), str(plan), str(followed), str(result),
        checked._repr_html_().split("<table", 1)[1], result._repr_html_().split("<table", 1)[1],
        str(nacp.plan(k=3, noise=0.2, n=12_000, checked=1500)),
        str(diagnosis),
        checked.predict_set(probs)._repr_html_().split("<table")[0],
    ]  # fmt: skip
    mistakes = [
        lambda: nacp.choose_audit(probs, noisy, budget=12_000),
        lambda: nacp.calibrate(probs[:11_000], noisy[:11_000], clean=([1], [0]), audit=plan),
        lambda: nacp.make_report(probs, noisy, noise=0.2, descriptions=["one"] * 1001),
        lambda: nacp.plan(k=3, noise=0.2, n=1000, checked=1500),
        lambda: nacp.calibrate(probs, np.stack([noisy, noisy], axis=1)[:-1], noise=0.2),
        lambda: nacp.noise_from_audit(1 - noisy[noisy < 2], noisy[noisy < 2], k=2, model="uniform"),
    ]
    for mistake in mistakes:
        with pytest.raises(nacp.InputError) as caught:
            mistake()
        texts.append(str(caught.value))
    for text in texts:
        assert re.search(r"\d,\d{3}", text), text
        plain = re.sub(r"shape \(.*?\)|found \(.*?\)|#\w+|[.\d]*em", "", text)
        assert not re.search(r"(?<![\d.,])\d{4,}(?!\.)", plain), text


@pytest.mark.parametrize("columns", [40, 80])
def test_what_is_printed_is_wrapped(columns):
    from nacp.wrapping import at_width

    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none")
    shown = [
        cal, cal.diagnose(PROBS, NOISY, clean=(range(60), TRUE[:60])), nacp.sensitivity(cal, PROBS, NOISY),
        nacp.compare(PROBS, NOISY, noise=0.2, guarantees=["none", "nacp"]),
        nacp.noise_from_model(PROBS, NOISY), nacp.noise_from_audit(NOISY[:100], TRUE[:100], k=3),
        nacp.plan(k=3, noise=0.2),
        nacp.judge(cal, nacp.evaluate(cal.predict_set(PROBS), TRUE)),
    ]  # fmt: skip
    for result in shown:
        with at_width(columns):
            assert max(map(len, str(result).splitlines())) <= columns, type(result)
        if hasattr(result, "_repr_html_") and not isinstance(result, nacp.Comparison | nacp.Plan):
            assert "\n" not in result._repr_html_()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_errors_are_wrapped_to_the_terminal_and_stay_one_line_in_a_file(stream, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", stream)
    complain("Error: probs.npy looks like percentages, and a sentence about them is longer than that")
    longest = max(map(len, stream.getvalue().splitlines()))
    assert longest <= 40 if stream.isatty() else longest > 80
