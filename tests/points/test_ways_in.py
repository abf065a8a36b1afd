"""The ways in which probabilities and labels come: logits, tables, tensors, names and numbers."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import softmax
from typer.testing import CliRunner

import nacp
from nacp.cli import app

K, N = 5, 400
NAMES = ("ant", "bee", "cat", "dog", "elk")
RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.standard_normal((N, K))
PROBS = softmax(LOGITS, axis=1)
TRUE = (PROBS.cumsum(axis=1) > RNG.random((N, 1))).argmax(axis=1)
NOISY = nacp.UniformNoise(0.1).sample(TRUE, K, random_state=0)
OPTIONS = {"noise": 0.1, "guarantee": "none"}


# Logits


@pytest.mark.parametrize(
    ("score", "shift"), [("hps", 0.0), ("hps", 800.0), ("hps", -800.0), ("aps", 0.0), ("raps", 0.0)]
)
def test_logits_give_the_sets_of_their_softmax(score, shift):
    """A softmax that is not stable would overflow, or vanish."""
    plain = nacp.calibrate(PROBS, NOISY, score=score, **OPTIONS)
    cal = nacp.calibrate(LOGITS + shift, NOISY, score=score, from_logits=True, **OPTIONS)
    # LOGITS + 800 has fewer bits.
    assert cal.threshold == pytest.approx(plain.threshold, rel=1e-10 if shift else 1e-14)
    by_hand, sets = plain.predict_set(PROBS), cal.predict_set(LOGITS + shift)
    assert np.count_nonzero(np.asarray(by_hand) != np.asarray(sets)) <= 1  # that at the threshold itself


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_row_of_logits_has_the_same_set_in_any_batch(dtype):
    logits = RNG.standard_normal((200, 37)).astype(dtype)
    labels = nacp.UniformNoise(0.1).sample(logits.argmax(axis=1), 37, random_state=0)
    cal = nacp.calibrate(logits, labels, noise=0.1, score="aps", guarantee="none", from_logits=True)
    sets = cal.predict_set(logits).to_lists()
    assert [cal.predict_set(logits[i : i + 1]).to_lists()[0] for i in range(200)] == sets
    assert cal.predict_set(np.asfortranarray(logits)).to_lists() == sets
    covered = nacp.evaluate(cal.predict_set(logits), labels).coverage
    assert (
        covered
        == nacp.coverage_curve(
            logits, labels, noise=None, score="aps", from_logits=True, thresholds=[cal.threshold]
        ).clean[0]
    )


def test_a_calibration_keeps_that_it_was_made_from_logits(tmp_path):
    cal = nacp.calibrate(LOGITS, NOISY, from_logits=True, classes=NAMES, **OPTIONS)
    cal.save(tmp_path / "cal.json")
    again = nacp.load(tmp_path / "cal.json")
    assert again == cal
    assert again.from_logits
    assert again.predict_set(LOGITS).to_lists() == cal.predict_set(LOGITS).to_lists()
    assert not nacp.diagnose(again, LOGITS, NOISY).rejected
    assert nacp.sensitivity(again, LOGITS, NOISY).rows
    for wrong in (PROBS, LOGITS[:0] * np.nan):
        if len(wrong):
            with pytest.raises(nacp.InputError, match="probs must hold logits; found probab"):
                again.predict_set(wrong)


def test_logits_are_taken_at_every_door():
    plain = nacp.compare(PROBS, NOISY, noise=0.1, scores=["hps"], guarantees=["none", "pac"])
    found = nacp.compare(
        LOGITS, NOISY, noise=0.1, scores=["hps"], guarantees=["none", "pac"], from_logits=True,
        test_probs=LOGITS, test_labels=TRUE,
    )  # fmt: skip
    assert [row.threshold for row in found.rows] == pytest.approx([row.threshold for row in plain.rows])
    assert found.rows[0].calibration.from_logits
    clean = (np.arange(100), TRUE[:100])
    for cal in (
        nacp.calibrate(LOGITS, NOISY, clean=clean, from_logits=True),
        nacp.calibrate(LOGITS, None, clean=clean, from_logits=True),
    ):
        assert cal.from_logits
        assert len(cal.predict_set(LOGITS)) == N
    estimate = nacp.noise_from_model(LOGITS, NOISY, from_logits=True)
    assert estimate.rate == pytest.approx(nacp.noise_from_model(PROBS, NOISY).rate, abs=1e-6)
    plan = nacp.choose_audit(LOGITS, NOISY, budget=50, from_logits=True)
    assert len(plan.rows) == 50
    page = nacp.make_report(LOGITS, NOISY, noise=0.1, guarantee="none", from_logits=True)
    assert page.contents.calibration.from_logits


@pytest.mark.parametrize(
    ("logits", "options", "words"),
    [
        (np.where(np.eye(N, K) > 0, np.nan, LOGITS), {}, "probs holds NaN, first in row 0"),
        (np.where(np.eye(N, K) > 0, np.inf, LOGITS), {}, "probs holds infinity, first in row 0"),
        (np.where(np.arange(N)[:, None] == 7, -np.inf, LOGITS), {}, "holds no finite logit, first in row 7"),
        (LOGITS, {"normalize": True}, "from_logits makes probabilities that sum to 1"),
        (LOGITS, {"score": "precomputed"}, "from_logits makes probabilities, and this score"),
        (PROBS, {}, "probs must hold logits; found probabilities"),
    ],
)  # fmt: skip
def test_what_has_no_softmax_is_refused(logits, options, words):
    with pytest.raises(nacp.InputError, match=words):
        nacp.calibrate(logits, NOISY, from_logits=True, **OPTIONS, **options)
    with pytest.raises(nacp.InputError, match="from_logits must be True or False"):
        nacp.calibrate(LOGITS, NOISY, from_logits="yes", **OPTIONS)


def test_a_logit_of_minus_infinity_is_a_class_that_cannot_be():
    logits = LOGITS.copy()
    logits[np.arange(N), (NOISY + 1) % K] = -np.inf
    cal = nacp.calibrate(logits, NOISY, from_logits=True, **OPTIONS)
    impossible = np.asarray(cal.predict_set(logits))[np.arange(N), (NOISY + 1) % K]
    assert not impossible.any()


def test_the_command_line_takes_logits(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    np.save(tmp_path / "labels.npy", NOISY)
    np.save(tmp_path / "truth.npy", TRUE)

    def run(*words):
        done = CliRunner().invoke(app, [word.replace("@", f"{tmp_path}/") for word in words])
        return done.exit_code, done.output

    code, said = run("calibrate", "@logits.npy", "@labels.npy", "--noise", "0.1", "-o", "@cal.json")
    assert code == 2
    assert "logits.npy looks like logits" in said
    assert "--logits" in said
    code, said = run(
        "calibrate", "@logits.npy", "@labels.npy", "--noise", "0.1", "--logits", "-o", "@cal.json"
    )
    assert code == 0, said
    expected = nacp.calibrate(LOGITS, NOISY, noise=0.1, from_logits=True)
    assert nacp.load(tmp_path / "cal.json") == expected
    assert run("evaluate", "@cal.json", "@logits.npy", "@truth.npy")[0] == 0
    assert run("predict", "@cal.json", "@logits.npy", "-o", "@sets.jsonl")[0] == 0
    assert run("diagnose", "@cal.json", "@logits.npy", "@labels.npy")[0] == 0
    compared = run("compare", "@logits.npy", "@labels.npy", "--noise", "0.1", "--logits", "--score", "hps")
    assert compared[0] == 0, compared
    assert run("noise", "model", "@logits.npy", "@labels.npy", "--logits", "-o", "@noise.json")[0] == 0
    code, said = run("calibrate", "@logits.npy", "@labels.npy", "--noise", "0.1", "--logits", "--normalize")
    assert code == 2
    assert "--logits makes probabilities that sum to 1" in said


# Names and numbers


def test_numbers_beside_names_are_those_of_the_columns():
    named = np.array(NAMES)[NOISY]
    by_name = nacp.calibrate(PROBS, named, classes=NAMES, **OPTIONS)
    by_number = nacp.calibrate(PROBS, NOISY, classes=NAMES, **OPTIONS)
    assert by_number == by_name
    sets = by_name.predict_set(PROBS)
    assert nacp.evaluate(sets, TRUE) == nacp.evaluate(sets, np.array(NAMES)[TRUE])
    assert (sets.contains(TRUE) == sets.contains(np.array(NAMES)[TRUE])).all()
    assert nacp.diagnose(by_name, PROBS, NOISY) == nacp.diagnose(by_name, PROBS, named)
    found = [nacp.coverage_by_class(sets, labels).coverage for labels in (TRUE, np.array(NAMES)[TRUE])]
    assert np.array_equal(*found)
    clean = np.where(np.arange(N) < 100, TRUE, -1)
    assert nacp.calibrate(PROBS, NOISY, clean=clean, classes=NAMES) == nacp.calibrate(
        PROBS, named, clean=(np.arange(100), np.array(NAMES)[TRUE[:100]]), classes=NAMES
    )
    several = np.column_stack([NOISY, NOISY])
    assert nacp.calibrate(PROBS, several, noise=0.1, classes=NAMES).n == N


def test_where_classes_are_numbers_labels_are_their_names():
    years = (2019, 2020, 2021, 2022, 2023)
    by_name = nacp.calibrate(PROBS, np.array(years)[NOISY], classes=years, **OPTIONS)
    assert by_name.threshold == nacp.calibrate(PROBS, NOISY, **OPTIONS).threshold
    with pytest.raises(nacp.InputError, match="not in classes"):
        nacp.calibrate(PROBS, NOISY, classes=years, **OPTIONS)
    # Names that are written as numbers, as from a file: 1 is "1", not the column after the first.
    written = ("1", "2", "3", "4", "5")
    assert nacp.calibrate(PROBS, NOISY + 1, classes=written, **OPTIONS).threshold == by_name.threshold
    with pytest.raises(nacp.InputError, match="holds 0, which is not in classes"):
        nacp.calibrate(PROBS, NOISY, classes=written, **OPTIONS)


def test_the_columns_of_a_table_name_the_classes():
    table = pd.DataFrame(PROBS, columns=NAMES)
    named = np.array(NAMES)[NOISY]
    expected = nacp.calibrate(PROBS, named, classes=NAMES, **OPTIONS)
    for labels in (named, NOISY):
        assert nacp.calibrate(table, labels, **OPTIONS) == expected
    mixed = table[["dog", "ant", "elk", "cat", "bee"]]
    assert expected.predict_set(mixed).to_lists() == expected.predict_set(PROBS).to_lists()
    assert nacp.calibrate(mixed, named, **OPTIONS).threshold == expected.threshold
    clean = (np.arange(100), np.array(NAMES)[TRUE[:100]])
    assert nacp.calibrate(table, named, clean=clean).classes == NAMES
    compared = nacp.compare(table, named, noise=0.1, scores=["hps"], guarantees=["none"])
    assert compared.rows[0].calibration.classes == NAMES
    assert nacp.noise_from_model(table, named).k == K
    assert nacp.make_report(table, named, noise=0.1, guarantee="none").contents.calibration.classes == NAMES
    assert nacp.calibrate(pd.DataFrame(PROBS), NOISY, **OPTIONS).classes is None


# Arrays of other kinds


def test_no_rows_have_no_sets():
    cal = nacp.calibrate(PROBS, NOISY, classes=NAMES, **OPTIONS)
    sets = cal.predict_set(PROBS[:0])
    assert len(sets) == 0
    assert np.asarray(sets).shape == (0, K)
    with pytest.raises(nacp.InputError, match="nothing to evaluate"):
        nacp.evaluate(sets, [])
    with pytest.raises(nacp.InputError, match=r"is empty: its shape is \(0, 5\)"):
        nacp.calibrate(PROBS[:0], NOISY[:0], **OPTIONS)
    with pytest.raises(nacp.InputError, match="has 4 columns"):
        cal.predict_set(PROBS[:0, :4])


def test_tensors_need_not_be_detached_and_may_be_bfloat16():
    torch = pytest.importorskip("torch")
    leaf = torch.tensor(PROBS, requires_grad=True)
    expected = nacp.calibrate(PROBS, NOISY, **OPTIONS)
    assert nacp.calibrate(leaf, torch.tensor(NOISY), **OPTIONS) == expected
    assert expected.predict_set(leaf * 1).to_lists() == expected.predict_set(PROBS).to_lists()
    logits = torch.tensor(LOGITS, dtype=torch.bfloat16, requires_grad=True)
    cal = nacp.calibrate(logits, NOISY, from_logits=True, **OPTIONS)
    same = logits.detach().float().numpy()
    assert cal == nacp.calibrate(same, NOISY, from_logits=True, **OPTIONS)
    assert cal.predict_set(logits).to_lists() == cal.predict_set(same).to_lists()


@pytest.mark.parametrize("k", [10, 100, 1000])
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_a_softmax_in_16_bits_is_probabilities_and_half_a_percent_off_otherwise_is_not(k, spread):
    torch = pytest.importorskip("torch")
    drawn = torch.Generator().manual_seed(k)
    logits = spread * torch.randn(3000, k, generator=drawn)
    labels = torch.randint(k, (3000,), generator=drawn)
    powers = logits.bfloat16().exp()
    by_hand = powers / powers.sum(dim=1, keepdim=True)
    options = {"noise": 0.1, "guarantee": "none"}
    rounded = logits.bfloat16().softmax(1), logits.softmax(1).bfloat16(), logits.half().softmax(1)
    for probs in (*rounded, by_hand):
        same = probs.float().numpy()  # as it is, with its sums
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoiseModelWarning)
            warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
            alike = probs, same, same.astype(np.float64)
            found = [nacp.calibrate(each, labels, **options) for each in alike]
        assert found[0].threshold == found[1].threshold == found[2].threshold
    off = by_hand.float().numpy()
    assert np.abs(off.sum(axis=1, dtype=np.float64) - 1).max() > 0.001
    for wrong in (1.005 * off, 1.02 * off):  # not a number of 16 bits; too much even for these
        with pytest.raises(nacp.InputError, match="must have rows that sum to 1"):
            nacp.calibrate(wrong.astype(np.float32), labels, **options)
    with pytest.raises(nacp.InputError, match="must have rows that sum to 1"):
        nacp.calibrate((1.02 * by_hand.float()).bfloat16(), labels, **options)


def test_sparse_labels_are_told_by_that_name():
    with pytest.raises(nacp.InputError, match=r"labels is a sparse matrix; pass labels.toarray\(\)"):
        nacp.calibrate(PROBS, csr_array(NOISY[None]), **OPTIONS)


# Advice


@pytest.mark.parametrize("score", ["hps", "aps"])
def test_where_there_are_points_enough_the_advice_is_to_look_at_the_rows(score):
    rng = np.random.default_rng(1)
    even, sharp, labels = (
        np.full((1500, 20), 0.05),
        rng.dirichlet(np.full(20, 0.02), 1500),
        rng.integers(20, size=1500),
    )
    advice = "do labels and rows belong together, and do the probabilities tell the classes apart"
    for probs in (even, sharp):
        with pytest.warns(nacp.NoValidThresholdWarning, match=advice):
            nacp.calibrate(probs, labels, noise=0.2, score=score)
