"""The report: its numbers are those of `calibrate`, and the page works in a real browser."""

import functools
import html
import json
import math
import os
import re
import shutil
import warnings

import numpy as np
import pytest

import nacp
from nacp.paper import twins
from nacp.show.report import contents
from nacp.show.report.contents import ALPHAS
from nacp.show.report.page import PRINTED, _threshold
from nacp.wrapping import on_one_line

BROWSER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    None in BROWSER and "NACP_NEEDS_BROWSER" not in os.environ, reason="chromium or chromedriver is missing"
)
NOISE = nacp.UniformNoise(0.2)
NASTY = '</script><script>alert(1)</script>{{title}}<b data-text="alpha" data-mark="target">'


@functools.cache
def data(n=1500, k=100):
    probs, labels = twins.simulate("cifar100", n=2 * n, random_state=3)
    return probs[:n], NOISE.sample(labels[:n], k, 0), probs[n:], labels[n:]


def true_labels(n):
    """The true labels of the first points of `data(n)`."""
    return twins.simulate("cifar100", n=2 * n, random_state=3)[1][:n]


@pytest.fixture
def few_alphas(monkeypatch):
    monkeypatch.setattr(contents, "ALPHAS", (0.05, 0.1, 0.3))


@pytest.fixture(scope="module")
def report():
    probs, noisy, test_probs, test_labels = data()
    names = [NASTY, *(f"class {i}" for i in range(1, 100))]
    return nacp.make_report(
        probs,
        np.array(names)[noisy],
        noise=NOISE,
        alpha=0.125,
        score="raps",
        classes=names,
        test_probs=test_probs,
        test_labels=np.array(names)[test_labels],
        samples=[0, 1, 2],
        descriptions=[NASTY] * len(test_probs),
        ids=[NASTY] * len(test_probs),
        title=NASTY,
    )


def quiet_calibrate(**options):
    probs, noisy, *_ = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
        return nacp.calibrate(probs, noisy, noise=NOISE, **options)


def test_steps_are_what_calibrate_gives_for_each_alpha(report):
    *_, test_probs, test_labels = data()
    assert [step.calibration.alpha for step in report.contents.steps] == sorted([*ALPHAS, 0.125])
    for step in report.contents.steps[::6]:
        cal = quiet_calibrate(alpha=step.calibration.alpha, score="raps")
        sets = cal.predict_set(test_probs)
        assert step.calibration.threshold == cal.threshold
        assert step.sizes.tolist() == sets.sizes.tolist()
        assert step.coverage == sets.contains(test_labels).mean()
    sets = report.contents.calibration.predict_set(test_probs)
    for sample in report.contents.samples:
        assert sorted(sample.labels[: sets.sizes[sample.row]]) == sorted(sets[sample.row])


def test_texts_of_the_user_stay_texts(report, tmp_path):
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    assert "alert(1)" in report.html
    assert "<script>alert" not in report.html
    assert len(re.findall("</script>", report.html)) == len(re.findall("<script", report.html)) == 2


@pytest.mark.usefixtures("few_alphas")
def test_sizes_and_classes_without_test_points_are_those_of_the_calibration_points():
    probs, noisy, *_ = data(n=800)
    contents = nacp.make_report(probs, noisy, noise=NOISE).contents
    chosen = contents.steps[contents.chosen]
    assert chosen.mean_size == chosen.calibration.predict_set(probs).sizes.mean()
    sets = chosen.calibration.predict_set(probs)
    by_class = nacp.coverage_by_class(sets, noisy, noise=NOISE)
    for name in ("coverage", "low", "high", "count"):
        np.testing.assert_array_equal(getattr(contents.classes, name), getattr(by_class, name))
    pac = next(row for row in contents.comparison.rows if row.guarantee == "pac")
    assert f"{pac.mean_size:.2f}" == f"{chosen.mean_size:.2f}"
    assert chosen.coverage is None
    assert [sample.label for sample in contents.samples] == [noisy[s.row] for s in contents.samples]
    test_probs = data()[2][:300]
    found = nacp.make_report(probs, noisy, noise=NOISE, test_probs=test_probs, guarantee="none")
    assert "The excess, by which" not in found.html  # as nothing is promised
    found = found.contents
    assert found.steps[found.chosen].mean_size == found.calibration.predict_set(test_probs).sizes.mean()
    assert (found.measured_on, found.tested, found.samples[0].label) == ("test", 0, None)
    assert nacp.make_report(probs[:1], noisy[:1], noise=NOISE).contents.diagnosis is None


@pytest.mark.usefixtures("few_alphas")
def test_clean_labels_and_infinite_thresholds_have_a_page():
    probs, *_ = data(n=10)
    labels = probs.argmax(axis=1)
    for noise in (None, 0.2):
        report = nacp.make_report(probs, labels, noise=noise)
        assert (report.contents.calibration.obstacle is None) == (noise is None)
        json.loads(re.search(r'id="data">(.*?)</script>', report.html, re.S)[1])


@pytest.mark.slow
def test_the_noise_model_is_examined(report):
    probs, noisy, *_ = data()
    cal = quiet_calibrate(alpha=0.125, score="raps")
    contents = report.contents
    assert contents.diagnosis == cal.diagnose(probs, noisy)
    assert contents.sensitivity == nacp.sensitivity(cal, probs, noisy)
    assert "Diagnosis.</strong> The noise model is not rejected" in report.html
    assert "Estimated.</strong>" not in report.html

    estimate = nacp.noise_from_audit(noisy[:400], true_labels(1500)[:400], k=100, model="uniform")
    page = nacp.make_report(probs, noisy, noise=estimate).html
    assert "Estimated.</strong> Uniform label noise" in page
    clean = nacp.make_report(probs, noisy, noise=None)
    assert clean.contents.diagnosis is clean.contents.sensitivity is None
    assert nacp.make_report(probs, noisy, noise=0.0).contents.sensitivity is None


@pytest.mark.usefixtures("few_alphas")
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize(
    ("guarantee", "noise"),
    [
        ("none", None),
        pytest.param("pac", nacp.UniformNoise(0.2, interval=(0.1, 0.3)), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_with_checked_labels_all_steps_rest_on_these_and_the_noise_model_is_judged(guarantee, noise):
    probs, noisy, *_ = data(n=600)
    truth, names = true_labels(600), np.array([f"class {i}" for i in range(100)])
    labels, rows = names[noisy], np.arange(0, 600, 3)
    given = {"clean": (rows, names[truth[rows]]), "classes": list(names), "guarantee": guarantee}
    given |= {} if noise is None else {"noise": noise}
    report = nacp.make_report(probs, labels, **given)
    contents, cal = report.contents, report.contents.calibration
    for step in contents.steps[1:]:
        alone = nacp.calibrate(probs, labels, alpha=step.calibration.alpha, **given)
        assert (step.calibration.threshold, alone.checked) == (alone.threshold, 200)
    assert "200 of them checked" in report.html
    assert f"say that {100 * cal.estimate:.1f}%" in report.html
    assert "Measured on 200 checked points" in report.html
    hits = cal.predict_set(probs[rows]).contains(names[truth[rows]])
    count, covered = (np.bincount(truth[rows], w, minlength=100) for w in (None, hits))
    np.testing.assert_array_equal(contents.classes.count, count)
    np.testing.assert_allclose(np.nan_to_num(contents.classes.coverage) * count, covered)
    # The curve is that of checked labels, and goes through the threshold.
    place = np.searchsorted(contents.curve.thresholds, cal.threshold)
    row = next(row for row in contents.comparison.rows if row.threshold == cal.threshold)
    assert contents.curve.clean[place] == pytest.approx(row.checked_estimate)
    if noise is None:
        assert contents.diagnosis is None
        return
    (model,) = (
        row.calibration
        for row in contents.comparison.rows
        if (row.labels, row.guarantee) == ("noisy", guarantee)
    )
    assert on_one_line(contents.diagnosis.claim) in html.unescape(report.html)
    assert contents.diagnosis == nacp.diagnose(model, probs, labels, clean=given["clean"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"test_labels": [0]}, "test_labels needs test_probs"),
        ({"noise": nacp.noise.UNSAID}, "noise can be left out only where some labels were checked"),
        ({"labels": None, "clean": np.zeros(50, dtype=int)}, "labels must be given"),
        ({"test_probs": np.empty((0, 100))}, "test_probs is empty"),
        ({"test_probs": np.full((5, 99), 1 / 99)}, "test_probs has 99 columns"),
        ({"test_probs": np.full((1, 100), 0.01), "test_labels": [100]}, "test_labels must lie from 0 to 99"),
        *(
            ({"samples": [row]}, f"samples must be row numbers from 0 to 49; found {row}")
            for row in (50, -1, 1.5)
        ),
        ({"descriptions": ["one"]}, "descriptions must have one text for each of 50 points; found 1"),
        ({"ids": ["one"]}, "ids must have one text for each of 50 points; found 1"),
        ({"test_groups": ["a"]}, "test_groups has no effect: it is for groups of rows"),
        ({"simultaneous": True}, "without groups"),
        (
            {"groups": ["a", "b"] * 25, "small": "all", "test_probs": np.full((1, 100), 0.01)},
            "test_groups is missing",
        ),
        ({"by": "class", "small": "all", "test_groups": ["a"]}, "test_groups has no effect"),
    ],
)
@pytest.mark.usefixtures("few_alphas")
def test_bad_input_gets_a_sentence(changed, said):
    probs, noisy, *_ = data(n=50)
    options = {"labels": noisy, "noise": NOISE} | changed
    with pytest.raises(nacp.InputError, match=said):
        nacp.make_report(probs, **options)


@pytest.mark.usefixtures("few_alphas")
def test_labels_that_could_not_be_decided_are_of_no_class():
    probs, noisy, *_ = data(n=200)
    names = [f"class {i}" for i in range(100)]
    labels = np.array(names)[noisy]
    clean = ["?" if i < 5 else str(labels[i]) for i in range(100)]
    found = nacp.make_report(probs, labels, clean=(np.arange(100), clean), classes=names, guarantee="none")
    assert found.contents.calibration.checked == 100
    assert found.contents.classes.count.tolist() == np.bincount(noisy[5:100], minlength=100).tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("few_alphas")
def test_under_an_interval_the_page_says_which_rate_the_estimate_is_for():
    probs, noisy, *_ = data(n=1000)
    noise = nacp.UniformNoise(0.2596491228070175, interval=(0.1512345678, 0.30000000001), confidence=0.95)
    report = nacp.make_report(probs, noisy, noise=noise)
    step = report.contents.steps[report.contents.chosen]
    # Less noise is the careful end, as it explains fewer misses; "pac" rounds it down.
    assert 0.15 < step.rate <= 0.1512345678
    curve, cal = report.contents.curve, step.calibration
    assert curve.clean[np.searchsorted(curve.thresholds, cal.threshold)] == pytest.approx(cal.estimate)
    direct = nacp.coverage_curve(probs, noisy, noise=step.rate, thresholds=[cal.threshold])
    assert direct.clean[0] == pytest.approx(cal.estimate, abs=1e-9)
    assert f"for a noise rate of {step.rate:.4g}" in report.html
    assert f"The estimated coverage is for {step.rate:.4g}, the end of the interval" in report.html
    assert "UniformNoise(" not in report.html
    assert "0.25964912" not in report.html
    assert "for a noise rate of" not in nacp.make_report(probs, noisy, noise=NOISE).html


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    folder = tmp_path_factory.mktemp("report")
    report.save(folder / "report.html")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER[0]
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking", "no-first-run"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(BROWSER[1]))
    driver.get("about:blank")
    driver.get_log("performance")  # what the browser does for itself
    driver.get((folder / "report.html").as_uri())
    yield driver
    driver.quit()


def shown(page, name):
    return page.execute_script(f"return document.querySelector('[data-text={name}]').textContent")


def slide(page, step):
    """Move the slider as a keyboard would."""
    from selenium.webdriver.common.keys import Keys

    slider = page.find_element("id", "alpha")
    slider.send_keys(Keys.HOME)
    for _ in range(step):
        slider.send_keys(Keys.ARROW_RIGHT)


@needs_browser
class TestInTheBrowser:
    def test_it_loads_without_errors_and_without_the_network(self, page):
        events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
        asked = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert asked[0].startswith("file:")
        assert [entry for entry in page.get_log("browser") if entry["level"] != "INFO"] == []
        assert page.title == NASTY

    def test_the_values_under_the_pointer_are_those_of_the_curves(self, page, report):
        from selenium.webdriver import ActionChains

        curve = report.contents.curve
        plot = page.find_element("id", "coverage-chart")
        ActionChains(page).move_to_element(plot).perform()
        head, *rows = page.execute_script(
            "return [...document.querySelectorAll('#coverage-chart .values > *')].map(e => e.textContent)"
        )
        place = np.searchsorted(curve.thresholds, float(head.removeprefix("threshold ")) * (1 + 1e-5)) - 1
        for row, values in zip(rows, (curve.clean, curve.noisy, curve.random), strict=True):
            assert row.endswith(f"){values[place]:.2%}")

    @pytest.mark.parametrize("step", [0, 9, 30])
    def test_the_slider_shows_what_calibrate_gives_for_that_alpha(self, page, report, step):
        slide(page, step)
        found = report.contents.steps[step]
        cal = found.calibration
        assert float(shown(page, "alpha")) == cal.alpha
        assert shown(page, "asked") == f"{100 * (1 - cal.alpha):g}%"
        assert shown(page, "estimate") == f"{cal.estimate:.1%}"
        assert shown(page, "tested") == f"{found.coverage:.1%}"
        assert float(shown(page, "size")) == pytest.approx(found.mean_size, abs=0.005)
        if math.isinf(cal.threshold):
            assert shown(page, "threshold") == "none"
            assert cal.obstacle[1:] in shown(page, "obstacle")
        else:
            assert float(shown(page, "threshold")) == pytest.approx(cal.threshold, rel=5e-4)
        bars = page.execute_script(
            "return [...document.querySelectorAll('.count')]"
            ".filter(e => e.offsetParent).map(e => e.textContent)"
        )
        assert len(bars) == np.flatnonzero(report.contents.histogram(found))[-1] + 1
        counts = [int(count.replace(",", "")) for count in bars]
        assert (counts[1], sum(counts)) == ((found.sizes == 1).sum(), len(found.sizes))
        visible = page.execute_script(
            "return [...document.querySelectorAll('[data-sample]')].map("
            "s => s.querySelectorAll('.set li:not(.out)').length)"
        )
        assert visible == np.minimum(found.sizes[:3], 30).tolist()

    def test_classes_are_found_by_name(self, page):
        search = page.find_element("id", "search")
        search.send_keys("class 42")
        rows = page.find_elements("css selector", "#classes tbody tr")
        assert [row.find_element("tag name", "th").text for row in rows if row.is_displayed()] == ["class 42"]
        search.send_keys(8 * "\b")

    def test_only_tables_of_more_than_15_rows_scroll_and_have_a_search(self, page):
        heights = "return [getComputedStyle(document.getElementById('classes')).maxHeight,"
        heights += " getComputedStyle(document.querySelector('.search')).display]"
        cut = "[...document.querySelectorAll('#classes tbody tr')].slice({}).forEach(e => e.remove());"
        keep = "const kept = document.querySelector('#classes tbody').cloneNode(true);"
        back = "document.querySelector('#classes tbody').replaceWith(kept); return found"
        few = page.execute_script(f"{keep} {cut.format(15)} const found = (() => {{ {heights} }})(); {back}")
        assert few == ["none", "none"]
        assert page.execute_script(heights) == ["448px", "block"]

    def test_on_paper_no_text_is_cut_and_nothing_sticks_out(self, page):
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics(680))  # A4 less its margins
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert page.execute_script(COLLIDING) == []
        try:
            assert page.execute_script("return document.documentElement.scrollWidth") <= 680
            assert page.execute_script(CUT) == []
            told = page.find_elements("css selector", ".guarantees td:last-child")
            assert all(each.is_displayed() and each.rect["width"] > 200 for each in told)
            classes = page.find_elements("css selector", "#classes tbody tr")
            assert sum(each.is_displayed() for each in classes) == PRINTED < len(classes)
        finally:
            page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    @pytest.mark.parametrize("width", [400, 1000, 1600])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_nothing_sticks_out_at_any_width(self, page, width, scheme):
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics(width))
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        assert page.execute_script(COLLIDING) == []
        wanted = "rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)"
        assert (
            page.execute_script("return getComputedStyle(document.documentElement).backgroundColor") == wanted
        )


# Cells and boxes whose text goes on behind their edge; what is clipped is for screen readers alone.
CUT = """
return [...document.querySelectorAll('p, h1, h2, li, dd, dt, td, th, code, blockquote, .scroll, .guarantees')]
  .filter((e) => getComputedStyle(e.closest('thead') ?? e).clipPath === 'none')
  .filter((e) => e.offsetParent && e.clientWidth && e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.tagName + ' ' + e.className + ': ' + e.textContent.slice(0, 60))
"""

# Numbers at ticks that touch the next one; and, of few, those that are left out.
COLLIDING = """
return [...document.querySelectorAll('.plot')].flatMap((plot) => {
  const numbers = [...plot.querySelectorAll('.across span')];
  const boxes = numbers.filter((e) => e.offsetParent).map((e) => e.getBoundingClientRect());
  const near = boxes.slice(1).filter((box, i) => box.left < boxes[i].right + 4).map((box) => box.left);
  return numbers.length < 6 && boxes.length < numbers.length ? [plot.id] : near;
})
"""


def metrics(width):
    return {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}


@pytest.mark.usefixtures("few_alphas")
def test_groups_have_a_part_of_their_own_with_the_numbers_of_calibrate_and_evaluate(report):
    probs, noisy, test_probs, test_labels = data(600)
    kinds = {i: NASTY if i < 50 else "b" for i in range(100)}
    options = {"noise": NOISE, "groups": kinds, "simultaneous": True}
    made = nacp.make_report(probs, noisy, test_probs=test_probs, test_labels=test_labels, **options)
    cal, part = nacp.calibrate(probs, noisy, **options), made.contents.groups
    assert part.calibration == cal
    found = nacp.evaluate(cal.predict_set(test_probs), test_labels, groups=kinds)
    assert part.own.groups.coverage.tolist() == found.groups.coverage.tolist()
    assert part.own.mean_size == found.mean_size
    page = html.unescape(made.html[made.html.index("A threshold for each group") :])
    assert all(f"{each:.6g}" in page for each in cal.thresholds.values())
    assert all(f"{each:.1%}" in page for each in found.groups.coverage)
    shown = cal._repr_html_()
    assert html.escape(NASTY) in shown
    assert NASTY not in shown
    assert "in all 2 groups of classes at once" in page.replace("In all", "in all")
    assert NASTY not in made.html
    assert "A threshold for each group" not in report.html


@pytest.mark.usefixtures("few_alphas")
def test_a_contradicted_promise_is_not_shown_as_a_promise(report):
    probs, noisy, *_ = data(n=800)
    page = nacp.make_report(probs, noisy, noise=0.6).html
    assert "Do not rely on the promise" in page
    assert 0 < page.index("class='banner'") < page.index("What would be promised")
    assert "class='banner'" not in report.html
    assert "<h2>What would be promised if the assumptions held</h2>" in page
    assert '<p class="promise"' not in page
    assert "in doubt, see warning" in page
    assert "What if the noise rate is wrong?" in report.html
    assert "What if the noise rate is wrong?" not in page
    assert '<p class="promise"' in report.html


@pytest.mark.usefixtures("few_alphas")
def test_coverage_is_in_percent_and_options_are_in_words():
    probs, noisy, *_ = data(n=300)
    ids = [f"case {i}" for i in range(300)]
    made = nacp.make_report(probs, noisy, noise=NOISE, alpha=0.3, ids=ids, samples=[7])
    cal = made.contents.calibration
    assert f"{cal.estimate:.1%}<td" in made.html  # in the table of guarantees
    assert "Score: HPS." in made.html
    assert "Guarantee: PAC with delta=0.05." in made.html
    assert ">case 7: " in made.html
    assert "row 7" not in made.html


def test_thresholds_have_four_digits_but_close_to_one():
    assert [_threshold(q) for q in (0.751343, 0.999983, 5.0, math.inf)] == ["0.7513", "0.999983", "5", "none"]


@pytest.mark.usefixtures("few_alphas")
def test_empty_sets_are_explained(report):
    probs, noisy, *_ = data(n=800)
    made = nacp.make_report(probs, noisy, noise=NOISE, alpha=0.3, guarantee="none")
    sizes = made.contents.calibration.predict_set(probs).sizes
    assert f"{(sizes == 0).sum()} sets of 800 are empty: for these points not even" in made.html
    assert "(--no-allow-empty)" in made.html
    texts = json.loads(re.search(r'id="data">(.*?)</script>', report.html, re.S)[1])["steps"]
    for step, told in zip(report.contents.steps, texts, strict=True):
        assert bool(told["texts"]["empty"]) == bool((step.sizes == 0).any())


@pytest.mark.usefixtures("few_alphas")
@pytest.mark.parametrize("checked", [False, True], ids=["noise", "an audit"])
def test_a_saved_calibration_has_a_report_and_other_points_are_refused(tmp_path, checked):
    probs, noisy, *_ = data(n=600)
    given = {}
    if checked:
        plan = nacp.choose_audit(probs, noisy, budget=200)
        given = {"clean": (plan.rows, true_labels(600)[plan.rows]), "audit": plan}
    cal = nacp.calibrate(probs, noisy, alpha=0.2, **given or {"noise": NOISE, "score": "raps"})
    cal.save(tmp_path / "cal.json")
    saved = nacp.load(tmp_path / "cal.json")
    found = nacp.make_report(probs, noisy, calibration=saved, **given).contents
    assert found.calibration == saved
    assert found.steps[found.chosen].mean_size == saved.predict_set(probs).sizes.mean()
    others = {"calibration": saved} | given
    if not checked:
        with pytest.raises(nacp.InputError, match="probs and labels are not those of the calibration"):
            nacp.make_report(probs[::-1][:500], noisy[::-1][:500], **others)
        with pytest.raises(nacp.InputError, match="noise is that of the calibration"):
            nacp.make_report(probs, noisy, noise=0.2, **others)
    with pytest.raises(nacp.InputError, match=r"alpha is that of the calibration|clean is missing"):
        nacp.make_report(probs, noisy, **{"calibration": saved} if checked else others | {"alpha": 0.2})
