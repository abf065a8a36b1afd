"""Checked labels by group of rows, and with dask arrays."""

import numpy as np
import pytest

import nacp
from nacp.coverage.grid import GRID, cells_of
from nacp.paper import twins


@pytest.fixture(scope="module")
def points():
    probs, truth = twins.simulate("cifar10", n=300, random_state=1)
    return probs, truth, nacp.UniformNoise(0.2).sample(truth, 10, random_state=1)


def test_with_checked_labels_alone_groups_are_those_of_all_rows(points):
    probs, truth, _ = points
    rows = np.random.default_rng(0).permutation(300)[:200]
    halves = np.arange(300) % 2
    some = nacp.calibrate(probs, None, clean=(rows, truth[rows]), alpha=0.3, groups=halves, small="all")
    for half in (0, 1):
        mine = rows[halves[rows] == half]
        alone = nacp.calibrate(
            probs[mine], None, clean=truth[mine], alpha=0.3, small="all", groups=[0] * len(mine)
        )
        assert some.groups[half].n == len(mine)
        assert some.thresholds[half] == alone.thresholds[0]


def test_checked_labels_in_another_order_than_the_rows_are_noticed(points):
    probs, truth, noisy = points
    rows = np.arange(0, 300, 2)
    for given in ({}, {"groups": np.zeros(300)}):
        with pytest.warns(nacp.NoiseModelWarning, match="the checked labels fit the rows of probs no better"):
            nacp.calibrate(probs, noisy, clean=(rows, truth[rows][::-1]), **given)
        with pytest.warns(nacp.NoiseModelWarning, match="the labels fit the rows of probs no better"):
            nacp.calibrate(probs, noisy[::-1], clean=(rows, truth[rows]), **given)


def test_a_refusal_states_how_many_checked_labels_a_group_needs(points):
    probs, truth, noisy = points

    def calibrated(few: int) -> nacp.GroupedCalibration:
        checked = np.concatenate([np.arange(0, 2 * few, 2), np.arange(1, 300, 2)])
        return nacp.calibrate(probs, noisy, clean=(checked, truth[checked]), groups=np.arange(300) % 2)

    with pytest.raises(nacp.InputError, match="at least 29 are needed; pass"):  # 0.9^29 < 0.05
        calibrated(28)
    assert not calibrated(29).infinite


def test_with_checked_labels_each_group_has_its_own(points):
    probs, truth, noisy = points
    groups = np.arange(len(noisy)) % 2
    checked = np.arange(0, 240, dtype=np.int64)
    known = {"alpha": 0.2, "guarantee": "expected"}
    cal = nacp.calibrate(probs, noisy, clean=(checked, truth[checked]), groups=groups, **known)
    for name in (0, 1):
        mine = checked[checked % 2 == name]
        scores = np.sort(1 - probs[mine, truth[mine]].astype(np.float64))
        assert cal.groups[name].threshold == GRID[cells_of(scores)[int(np.ceil(0.8 * 121)) - 1]]
    with pytest.warns(nacp.NoValidThresholdWarning, match="none of its labels were checked"):
        nacp.calibrate(
            probs, noisy, clean=(checked[::2], truth[checked[::2]]), groups=groups, small="all", **known
        )
    assert f"from {len(noisy):,} labels of" in str(cal)
    assert " ".join(str(cal).split()).count("240 of them checked. group checked threshold")
    assert [row[1] for row in cal.table()] == ["120", "120"]
    assert "the 240 checked points" in cal.assumptions
    with pytest.raises(
        nacp.InputError, match="clean cannot be used for groups of classes; calibrate with the"
    ):
        nacp.calibrate(probs, noisy, clean=(checked, truth[checked]), by="class")
    mine = nacp.calibrate(probs[checked], truth[checked], noise=None, by="class", small="all")  # as it says
    assert mine.noise is None
    with pytest.raises(nacp.InputError, match="clean holds names such as 'cat'"):  # and not '3'
        nacp.calibrate(probs, noisy, clean=([0, 1], [3, "cat"]))
    with pytest.raises(nacp.InputError, match=r"0 \(1 checked label\).*of all labels there$"):
        nacp.calibrate(probs, noisy, clean=([0, 1], truth[:2]), groups=groups)


def test_simultaneous_groups_share_delta(points):
    probs, truth, _ = points
    known = {"alpha": 0.3, "groups": np.arange(300) % 2}
    both = nacp.calibrate(probs, None, clean=truth, delta=0.1, simultaneous=True, **known)
    each = nacp.calibrate(probs, None, clean=truth, delta=0.05, **known)
    assert both.thresholds == each.thresholds
    for options, argument in (({"small": "merge"}, "small"), ({"guarantee": "none"}, "simultaneous")):
        with pytest.raises(nacp.InputError) as caught:
            nacp.calibrate(probs, None, clean=truth, **(known | {"simultaneous": True} | options))
        assert caught.value.argument == argument


def test_of_a_dask_array_the_checked_labels_alone_are_used():
    da = pytest.importorskip("dask.array")
    probs, truth = twins.simulate("cifar10", n=2000, random_state=2)
    labels, rows = nacp.UniformNoise(0.3).sample(truth, 10, random_state=0), np.arange(5, 1900, 16)
    lazy = da.from_array(probs, chunks=(700, 10))
    for options in ({"alpha": [0.1, 0.3]}, {"score": "aps", "guarantee": "expected"}, {"normalize": True}):
        known = options | {"clean": (rows, truth[rows])}
        exact = nacp.calibrate(probs, None, **known)
        assert nacp.calibrate(lazy, None, **known) == exact
        for given in (labels, da.from_array(labels, chunks=700)):
            found = nacp.calibrate(lazy, given, **known)
            for one, same in zip(np.atleast_1d(found), np.atleast_1d(exact), strict=True):
                assert one.native_threshold == same.native_threshold
                assert "only the checked labels are used" in one.note
    plan = nacp.choose_audit(probs, labels, budget=100)
    wrong = probs.copy()
    wrong[rows[3], 7] = np.nan
    bad = da.from_array(wrong, chunks=(700, 10))
    for said, given, options in (
        ("with groups, or a plan", lazy, {"clean": (plan.rows, truth[plan.rows]), "audit": plan}),
        ("with groups, or a plan", lazy, {"clean": truth, "groups": labels}),
        (f"holds NaN, first in row {rows[3]}", bad, {"clean": (rows, truth[rows])}),
    ):
        with pytest.raises(nacp.InputError, match=said):
            nacp.calibrate(given, labels, **options)


def test_rows_on_a_device_have_the_same_strata(points):
    torch = pytest.importorskip("torch")
    from nacp import engine

    probs, truth = twins.simulate("cifar10", n=1000, random_state=2)
    noisy, rows = nacp.UniformNoise(0.2).sample(truth, 10, random_state=1), np.arange(0, 1000, 10)
    for score in ("hps", "aps"):
        known = {"clean": (rows, truth[rows]), "score": score, "alpha": [0.1, 0.2]}
        expected = nacp.calibrate(probs, noisy, **known)
        plan = nacp.choose_audit(probs, noisy, budget=80, score=score)
        with engine.using("torch"):
            assert nacp.calibrate(torch.from_numpy(probs), noisy, **known) == expected
            there = nacp.choose_audit(torch.from_numpy(probs), noisy, budget=80, score=score)
        assert np.array_equal(there.rows, plan.rows)
        assert there.to_dict() == plan.to_dict()


def test_a_group_without_checked_labels_has_sets_of_all_labels(points):
    probs, truth, noisy = points[:3]
    groups = np.where(np.arange(len(probs)) < 50, "unchecked", "checked")
    rows = np.arange(50, 300)
    with pytest.warns(nacp.NoValidThresholdWarning, match="none of its labels were checked"):
        cal = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), groups=groups, small="all", alpha=0.2)
    found = cal.groups["unchecked"]
    assert (found.threshold, found.estimate, found.checked) == (np.inf, 1.0, 0)
    assert cal.groups["checked"].threshold < np.inf
