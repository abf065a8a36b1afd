"""Printed results: lines fit the terminal, and numbers have separators."""

import io
import re
import sys

import numpy as np
import pytest

import nacp
from nacp.cli.terminal import complain
from nacp.wrapping import at_width

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.full(3, 0.5), size=600)
TRUE = (PROBS.cumsum(axis=1) > RNG.random((600, 1))).argmax(axis=1)
NOISY = nacp.UniformNoise(0.2).sample(TRUE, 3, random_state=0)


def test_counts_are_written_with_separators():
    """Numbers of four digits or more, in what is printed and in what is refused."""
    probs, noisy = RNG.dirichlet(np.full(3, 0.5), size=2000), np.tile(NOISY, 4)[:2000]
    checked = nacp.calibrate(probs, noisy, clean=(np.arange(1500), probs.argmax(axis=1)[:1500]))
    texts = [str(checked), str(nacp.evaluate(checked.predict_set(probs), noisy))]
    with pytest.raises(nacp.InputError) as caught:
        nacp.choose_audit(probs, noisy, budget=1999)
    for text in (*texts, checked.assumptions, checked._repr_html_().split("</strong>")[1], str(caught.value)):
        assert re.search(r"\d,\d{3}", text), text
        assert not re.search(r"(?<![\d.,#\w])\d{4,}(?!\.)", re.sub(r"[.\d]*em", "", text)), text


@pytest.mark.parametrize("columns", [40, 80])
def test_what_is_printed_is_wrapped(columns):
    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none")
    shown = [
        cal,
        cal.diagnose(PROBS, NOISY, clean=(range(60), TRUE[:60])),
        nacp.sensitivity(cal, PROBS, NOISY),
        nacp.compare(PROBS, NOISY, noise=0.2, guarantees=["none", "nacp"]),
        nacp.noise_from_model(PROBS, NOISY),
        nacp.noise_from_audit(NOISY[:100], TRUE[:100], k=3),
        nacp.plan(k=3, noise=0.2),
        nacp.judge(cal, nacp.evaluate(cal.predict_set(PROBS), TRUE)),
    ]
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
