"""Plots and HTML show the numbers that are there, escaped, on any page."""

import subprocess
import sys
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest

import nacp
from nacp.paper import twins
from nacp.show.axes import threshold_axis

matplotlib.use("agg")
from matplotlib import pyplot

K, N = 100, 800
NAMES = {"pac", "binomial", "nacp", "expected", "acnl", "crcp"}
EVIL = "<script>alert('x')</script> & \"co\""


@pytest.fixture(scope="module")
def data():
    probs, labels = twins.simulate("cifar100", n=2 * N, random_state=0)
    return probs, labels, nacp.UniformNoise(0.2).sample(labels, K, random_state=0)


@pytest.fixture(scope="module", params=["hps", "aps", "raps", "topk"])
def cal(data, request):
    probs, _, noisy = data
    return nacp.calibrate(probs[:N], noisy[:N], noise=0.2, score=request.param)


def labels_of(display):
    source = display.figure_.legends[0] if display.figure_.legends else display.ax_.get_legend()
    return [text.get_text() for text in source.get_texts()]


def test_the_coverage_lines_are_the_curve(cal):
    display = nacp.CoverageDisplay.from_calibration(cal)
    x = display.line_.get_xdata()
    shown = np.isin(cal.curve.thresholds, x)
    assert shown.sum() == len(x) > 10 or cal.score.name == "topk"
    for line, values in [
        (display.line_, cal.curve.clean),
        (display.noisy_line_, cal.curve.noisy),
        (display.random_line_, cal.curve.random),
    ]:
        assert np.array_equal(line.get_xdata(), cal.curve.thresholds[shown])
        assert np.array_equal(line.get_ydata(), values[shown])
    low, high = display.ax_.get_xlim()
    assert low < cal.threshold < high
    assert f"threshold {cal.threshold:.4g}: covers {cal.estimate:.3f}" in labels_of(display)
    assert "target 0.9" in labels_of(display)
    display.figure_.canvas.draw()


def test_where_the_labels_contradict_the_noise_model_the_plot_says_so(data):
    probs, _, noisy = data
    with pytest.warns(nacp.NoiseModelWarning):
        cal = nacp.calibrate(probs[:N], noisy[:N], noise=0.6, guarantee="none")
    raw = nacp.coverage_curve(probs[:N], noisy[:N], noise=0.6)
    assert raw.clean.max() > 1.2
    told, plain = nacp.CoverageDisplay.from_calibration(cal), nacp.CoverageDisplay(raw, alpha=0.1).plot()
    for display, contradicted in ((told, True), (plain, False)):
        y = display.line_.get_ydata()
        assert 0 <= y.min() < y.max() == 1
        assert any("in doubt, see warning" in label for label in labels_of(display)) == contradicted
    told.figure_.canvas.draw()
    box = told.figure_.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= told.figure_.bbox.x1


def test_given_axes_are_drawn_on_and_options_reach_the_line(cal):
    figure, axes = pyplot.subplots(1, 3)
    coverage = nacp.CoverageDisplay.from_calibration(cal, ax=axes[0], color="red", label="mine")
    excess = nacp.ExcessDisplay.from_noise(0.2, k=10, sizes=[100, 1000], ax=axes[1], linewidth=3)
    sizes = nacp.SetSizeDisplay(np.array([1, 2, 2])).plot(axes[2], color="green")
    for display, ax in zip((coverage, excess, sizes), axes, strict=True):
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert ax.get_legend() is not None
    assert coverage.line_.get_color() == "red"
    assert "mine" in labels_of(coverage)
    assert {line.get_linewidth() for line in excess.lines_.values()} == {3}
    assert sizes.bars_[0].get_facecolor() == matplotlib.colors.to_rgba("green")
    assert len(pyplot.get_fignums()) == 1


def test_the_corrections_are_those_of_plan():
    sizes, options = [500, 50_000], {"k": 100, "alpha": 0.05, "delta": 0.01}
    display = nacp.ExcessDisplay.from_noise(0.2, sizes=sizes, **options)
    plans = [nacp.plan(noise=0.2, n=n, **options).rows for n in sizes]
    wanted = {
        name: [row.excess for rows in plans for row in rows if row.guarantee.name == name] for name in NAMES
    }
    assert {name: line.get_ydata().tolist() for name, line in display.lines_.items()} == wanted
    assert all(line.get_xdata().tolist() == sizes for line in display.lines_.values())
    matrix = nacp.UniformNoise(0.2).matrix(5).dense()
    fewer = nacp.ExcessDisplay.from_noise(matrix, k=5, sizes=sizes)
    assert set(fewer.lines_) == NAMES - {"binomial"}  # which needs uniform noise
    display.figure_.canvas.draw()


def test_the_bars_count_every_set_once(cal, data):
    probs = data[0][N:]
    display = nacp.SetSizeDisplay.from_calibration(cal, probs)
    sizes = cal.predict_set(probs).sizes
    heights = [bar.get_height() for bar in display.bars_]
    assert sum(heights) == pytest.approx(1)
    names = [text.get_text() for text in display.ax_.get_xticklabels()]
    for name, height in zip(names, heights, strict=True):
        low, _, high = name.partition("–")
        inside = (sizes >= int(low)) & (sizes <= int(high or low))
        assert height == pytest.approx(inside.mean())
    assert labels_of(display) == [f"mean {sizes.mean():.3g}, median {np.median(sizes):g}"]
    display.figure_.canvas.draw()
    empty = nacp.SetSizeDisplay(np.array([], dtype=np.int64)).plot()
    assert [bar.get_height() for bar in empty.bars_] == [0.0]


def test_imports_and_a_calibration_load_no_extra():
    code = (
        "import sys, nacp; from nacp.paper import twins; probs, y = twins.simulate('cifar10', n=500)\n"
        "y = nacp.UniformNoise(0.1).sample(y, 10, random_state=0)\n"
        "for each in ('none', 'pac'): nacp.calibrate(probs, y, noise=0.1, guarantee=each)\n"
        "print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"matplotlib", "typer", "rich", "pyarrow", "sklearn", "scipy"} & set(found.split())


def test_without_matplotlib_one_sentence_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"plots need matplotlib: pip install 'nacp\[plot\]'"):
        nacp.SetSizeDisplay(np.array([1, 2])).plot()


class Reader(HTMLParser):
    """Reads the cells, and checks that every tag is closed and harmless."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "p", "b"}
        assert {name for name, _ in attrs} <= {"style", "scope"}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_html_holds_the_numbers_and_no_markup_of_the_data(data):
    probs, labels, noisy = data
    names = tuple(f"{EVIL} {i}" for i in range(K))
    cal = nacp.calibrate(probs[:N], [names[i] for i in noisy[:N]], noise=0.2, score="aps", classes=names)
    sets = cal.predict_set(probs[N:])
    result = nacp.evaluate(sets, [names[i] for i in labels[N:]])
    texts = Reader(cal._repr_html_()).texts
    assert any(f"{cal.threshold:.6g}" in text for text in texts)
    assert any(cal.promise in text for text in texts)
    texts = Reader(sets._repr_html_()).texts
    assert any(f"{EVIL} {sets.labels[0]}" in text for text in texts)
    assert str(sets.sizes[0]) in texts
    assert any("and" in text and "more" in text for text in texts)
    low, high = result.coverage_interval
    texts = Reader(result._repr_html_()).texts
    assert any(f"; 95% interval: {low:.6g} to {high:.6g})" in text for text in texts)
    assert f"n: 800 (test points)\ncoverage: {result.coverage:.6g} (the share of sets" in str(result)
    with pytest.warns(nacp.NoValidThresholdWarning):
        few = nacp.calibrate(probs[:20], noisy[:20], noise=0.2)
    assert any(few.obstacle in text for text in Reader(few._repr_html_()).texts)
    assert "no threshold will do: all classes" in labels_of(nacp.CoverageDisplay.from_calibration(few))
    assert "none" in Reader(nacp.PredictionSets([0, 0], [], k=3)._repr_html_()).texts
    plan = nacp.plan(k=K, noise=0.2)
    assert {row.guarantee.name for row in plan.rows} <= set(Reader(plan._repr_html_()).texts)
    found = nacp.compare(probs[:N], noisy[:N], noise=0.2, scores=["hps"])
    texts = Reader(found._repr_html_()).texts
    for row in found.rows:
        assert f"{row.mean_size:.2f}" in texts
        assert any((row.reason or row.promise) in text for text in texts)


@pytest.mark.parametrize("chosen", [1e-17, 1e-6, 0.5, 0.99, 1 - 1e-9, 1 - 1e-16, None])
@pytest.mark.parametrize("others", [(), (0.0, 0.3, 1.0)], ids=["alone", "others"])
def test_the_stretched_axis_shows_the_threshold_wherever_it_is(chosen, others):
    q = np.sort(np.append(np.linspace(0.0, 1.0, 101), 0.5 if chosen is None else chosen))
    axis = threshold_axis(q, chosen, others)
    places = axis.place(q)
    assert axis.scale == "logit"
    assert np.isfinite(places).all()
    assert (np.diff(places) >= 0).all()
    assert len(axis.ticks) > 2
    if chosen is not None and 1e-6 <= chosen <= 0.99:
        assert 0.05 < axis.place(chosen) < 0.95
