"""Plans of audits: what they pick, that the promise holds with them, and that they can be written down."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import nacp
from nacp.audit.plan import chosen_share, same_audit
from nacp.stats.counts import allowed_misses, share_of_look
from nacp.stats.strata import strata_variance
from nacp.wrapping import on_one_line
from tests.audit.simulation import assert_seldom_short, coverage_of, points, posterior_of, samples

PLAN = {"budget": 80, "alpha": 0.2}


def test_a_plan_picks_at_random_in_two_strata_and_never_from_the_pilot():
    probs, _, noisy = points(2000, 5, 32)
    plan = nacp.choose_audit(probs, noisy, noise=0.2, random_state=3, **PLAN)
    assert len(np.unique(plan.rows)) == len(plan) == 80
    inside = posterior_of(probs, noisy, 0.2) * (-probs.astype(np.float64) <= plan.native_threshold)
    outside = inside.sum(axis=1) < 0.95
    assert np.array_equal(outside[plan.rows], plan.outside)
    assert plan.outside.sum() == 32
    pilot, others = np.split(np.random.default_rng(3).permutation(2000), [plan.pilot])
    assert not set(pilot) & set(plan.rows)
    assert plan.counts == (outside[pilot].sum(), outside[others].sum())
    # Each point of a stratum is as likely as any other: over many seeds, by the classes of the points.
    picked = np.zeros(2000)
    for seed in range(200):
        picked[nacp.choose_audit(probs, noisy, noise=0.2, random_state=seed, **PLAN).rows] += 1
    for stratum in (outside, ~outside):
        halves = picked[stratum & (np.arange(2000) < 1000)], picked[stratum & (np.arange(2000) >= 1000)]
        apart = halves[0].mean() - halves[1].mean()
        error = math.sqrt(sum(part.mean() / part.size for part in halves))  # as of Poisson counts
        assert abs(apart) <= 4 * error


def test_labels_in_another_order_than_the_rows_are_not_checked_without_a_warning():
    probs, _, noisy = points(2000, 5, 32)
    with pytest.warns(nacp.NoiseModelWarning, match="no better than labels in random order"):
        nacp.choose_audit(probs, noisy[::-1], **PLAN)


@pytest.mark.slow
def test_the_promise_holds_for_chosen_checks_under_noise_that_depends_on_the_input():
    delta, alpha, coverages, left = 0.1, 0.2, [], []
    for run, rng, probs, truth, noisy in samples(60, 2000):
        plan = nacp.choose_audit(probs, noisy, random_state=run, **PLAN)
        unchecked = plan.rows[rng.random(len(plan)) < 0.7]  # the rest stays unchecked, at random
        for rows, found in ((plan.rows, coverages), (unchecked, left)):
            options = {"alpha": alpha, "delta": delta, "audit": plan}
            cal = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), **options)
            found.append(coverage_of(cal.threshold))
        assert "of whose 80 the others were left out at random" in cal.assumptions
    for found in (coverages, left):
        assert_seldom_short(found, alpha, delta)


@pytest.mark.parametrize(("outside", "alpha"), [(0.02, 0.05), (0.1, 0.1), (0.12, 0.2), (0.3, 0.1)])
def test_the_share_of_a_plan_is_the_best_one_under_its_guess_or_two_fifths(outside, alpha):
    shares = np.arange(1, 1000) / 1000
    variances = strata_variance(outside, 0.5, 1 - 0.3 * alpha, shares, 1 - shares, 1, unseen=0.0)
    best = min(shares[np.argmin(variances)], 0.4)
    assert abs(chosen_share(outside, alpha) - best) <= 0.001
    assert chosen_share(outside, alpha) > outside  # a random audit checks that many


def test_wrong_plans_get_one_clear_sentence():
    probs, truth, noisy = points(1000, 5, 35)
    plan = nacp.choose_audit(probs, noisy, **PLAN)
    clean = (plan.rows, truth[plan.rows])
    strange = np.setdiff1d(np.arange(1000), plan.rows)[:1]
    inside = plan.rows[~plan.outside]
    wrong = {
        "audit": [
            ((probs[:900], noisy[:900]), {"clean": ([1], [0])}, "was chosen from other points than these"),
            ((probs[::-1], noisy[::-1]), {"clean": clean}, "was chosen from other points than these"),
            ((probs, noisy), {"clean": clean, "audit": 5}, "must be what nacp.choose_audit returned"),
            ((probs, noisy), {"noise": 0.2}, "is of use with checked labels only"),
        ],
        "clean": [
            ((probs, noisy), {"clean": (strange, truth[strange])}, "which the audit did not choose"),
            ((probs, noisy), {"clean": (inside, truth[inside])}, "no label of a point that lies outside"),
        ],
        "guarantee": [
            (
                (probs, noisy),
                {"clean": clean, "guarantee": "expected"},
                r'picked at random; use "(pac|none)" or "(pac|none)"$',
            )
        ],
        "score": [((probs, noisy), {"clean": clean, "score": "aps"}, "for which the audit was chosen")],
        "labels": [((probs, None), {"clean": clean}, "is None")],
    }
    for argument, cases in wrong.items():
        for given, options, said in cases:
            with pytest.raises(nacp.InputError, match=said) as caught:
                nacp.calibrate(*given, **({"audit": plan} | options))
            assert caught.value.argument == argument
    with pytest.raises(nacp.InputError, match=r"returned; found ndarray$"):  # not all of its rows
        nacp.calibrate(probs, noisy, clean=clean, audit=plan.rows)
    for budget in (0, 901, 2.5):
        with pytest.raises(nacp.InputError) as caught:
            nacp.choose_audit(probs, noisy, budget=budget)
        assert caught.value.argument == "budget"


def test_a_plan_without_points_outside_is_a_random_audit():
    probs = np.tile([[0.97, 0.03]], (600, 1))
    labels = np.zeros(600, dtype=int)
    plan = nacp.choose_audit(probs, labels, budget=100)
    assert not plan.outside.any()
    assert (plan.counts, plan.native_threshold, plan.stops) == ((0, 0), math.inf, (100,))
    clean = (plan.rows, labels[plan.rows])
    cal = nacp.calibrate(probs, labels, clean=clean, audit=plan)
    assert cal.threshold == nacp.calibrate(probs, None, clean=clean).threshold


def test_rows_of_a_plan_without_the_plan_are_noticed():
    probs, truth, noisy = points(4000, 5, 38)
    plan = nacp.choose_audit(probs, noisy, budget=400)
    assert plan.outside.any()
    clean = (plan.rows, truth[plan.rows])
    with pytest.warns(nacp.AuditWarning, match="do not look like a random sample"):
        nacp.calibrate(probs, noisy, clean=clean)
    nacp.calibrate(probs, noisy, clean=clean, audit=plan)
    rows = np.random.default_rng(0).choice(4000, 400, replace=False)
    nacp.calibrate(probs, noisy, clean=(rows, truth[rows]))


def test_a_plan_that_was_written_down_is_the_same_plan():
    probs, _, noisy = points(2000, 5, 45)
    for budget, looks in ((80, 1), (80, 3), (1500, 2)):  # the last is picked at random
        plan = nacp.choose_audit(probs, noisy, budget=budget, noise=0.2, random_state=5, looks=looks)
        assert plan.outside.any() == (budget == 80)
        document = json.loads(json.dumps(plan.to_dict()))
        again = same_audit(document, probs, noisy)
        assert np.array_equal(again.rows, plan.rows)
        assert np.array_equal(again.outside, plan.outside)
        assert (again.counts, again.stops, str(again)) == (plan.counts, plan.stops, str(plan))
    pilot = [int(np.setdiff1d(np.arange(2000), plan.rows)[0])]
    rows = ["x", 3, [], [[3]], plan.rows.tolist() + pilot, [*plan.rows[:1]] * 2, [10**30]]
    wrong = [("rows", each) for each in rows]
    wrong += [("counts", [1]), ("pilot", 10**6), ("stops", [1500, 10]), ("stops", [10]), ("outside", None)]
    for name, value in wrong:
        with pytest.raises(nacp.InputError) as caught:
            same_audit(document | {name: value}, probs, noisy)
        assert caught.value.argument == "audit"


# Looks


@pytest.mark.parametrize("looks", [1, 2, 5, 20])
@pytest.mark.parametrize(("m", "alpha", "delta"), [(100, 0.1, 0.05), (400, 0.05, 0.1)])
def test_the_chance_that_some_look_is_short_is_at_most_delta(m, alpha, delta, looks):
    """Exactly, by the walk of the number of misses where coverage is 1 - alpha: it passes at no look."""
    stops = [math.ceil(m * i / looks) for i in range(1, looks + 1)]
    parts = [share_of_look(i, looks) for i in range(1, looks + 1)]
    assert sum(parts) == pytest.approx(1)
    short = {}
    for name, shares in (("planned", parts), ("unplanned", [1.0] * looks)):
        walk, before, short[name] = np.ones(1), 0, 0.0
        for stop, share in zip(stops, shares, strict=True):
            walk = np.convolve(walk, binom.pmf(np.arange(stop - before + 1), stop - before, alpha))
            passed = allowed_misses(stop, alpha, share * delta) + 1
            short[name] += walk[:passed].sum()
            walk[:passed], before = 0.0, stop
    assert delta / 4 < short["planned"] <= delta
    assert short["unplanned"] > delta or looks < 5


def test_a_look_spends_its_part_of_delta_and_says_which_it_is(tmp_path):
    probs, truth, noisy = points(2000, 5, 32)
    plan = nacp.choose_audit(probs, noisy, budget=303, alpha=0.2, looks=4)
    sizes = [len(each) for each in plan.instalments]
    assert (sum(sizes), max(sizes) - min(sizes), len(np.unique(plan.rows))) == (303, 1, 303)
    assert np.ptp([part.sum() for part in np.split(plan.outside, plan.stops[:-1])]) <= 1
    assert "Calibrate after the first 76, 151, 227 or all" in on_one_line(plan)
    one = nacp.choose_audit(probs, noisy, budget=303, alpha=0.2)
    assert set(one.rows) == set(plan.rows)
    asked, every = {"alpha": 0.2, "audit": plan}, plan.rows[: plan.stops[2]]
    for look, stop in enumerate(plan.stops, start=1):
        rows = plan.rows[:stop]
        cal = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), delta=0.1, **asked)
        assert (cal.look, cal.looks, cal.checked, cal.planned) == (look, 4, stop, stop)
        assert f"look {look} of 4, with {100 * share_of_look(look, 4):.2g}% of delta" in cal.assumptions
    cal.save(tmp_path / "cal.json")
    assert nacp.load(tmp_path / "cal.json") == cal
    alone = nacp.calibrate(
        probs, noisy, clean=(plan.rows, truth[plan.rows]), alpha=0.2, audit=one, delta=0.1 * 54 / 80
    )
    assert (alone.threshold, alone.floor) == (cal.threshold, pytest.approx(cal.floor))
    # Labels of the next instalment count when it is complete, so that there is nothing to choose.
    third, more = (
        nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), **asked)
        for rows in (every, plan.rows[: plan.stops[3] - 1])
    )
    assert more == replace(third, note="labels of instalments that are not complete are not used: 75")
    with pytest.raises(nacp.InputError, match="lacks 1 row of the first instalment"):
        nacp.calibrate(probs, noisy, clean=(plan.rows[1:], truth[plan.rows[1:]]), **asked)
    plan = nacp.choose_audit(probs, noisy, budget=1500, looks=2)  # these are picked at random
    with pytest.raises(nacp.InputError, match="no delta to divide among the looks"):
        nacp.calibrate(probs, noisy, clean=(plan.rows, truth[plan.rows]), audit=plan, guarantee="expected")
    with pytest.raises(nacp.InputError, match="budget must be a whole number of at least 10"):
        nacp.choose_audit(probs, noisy, budget=9, looks=5)
    plan = nacp.choose_audit(probs, noisy, budget=10, looks=5)
    for part in np.split(plan.outside, plan.stops[:-1]):
        assert len(part) == 2
    assert 0 < plan.outside[:2].sum() < 2


def test_an_audit_without_looks_says_that_there_was_no_look_before():
    probs, truth, noisy = points(900, 4, 31)
    plan = nacp.choose_audit(probs, noisy, **PLAN)
    for rows, audit in ((np.arange(200), None), (plan.rows, plan), (plan.rows[:50], plan)):
        cal = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), alpha=0.2, audit=audit)
        assert "no earlier look at fewer checked labels decided to check more" in cal.assumptions


def test_ten_rows_are_enough_for_a_plan_with_a_pilot_of_one():
    probs, _, noisy = points(10, 4, 2)
    plan = nacp.choose_audit(probs, noisy, budget=5)
    assert (plan.pilot, len(plan)) == (1, 5)
    with pytest.raises(nacp.InputError, match="at most 9 for 10 points, of which 1 are the pilot; found 10"):
        nacp.choose_audit(probs, noisy, budget=10)
    with pytest.raises(nacp.InputError, match="must have 10 rows or more to choose from; found 9"):
        nacp.choose_audit(probs[:9], noisy[:9], budget=5)
