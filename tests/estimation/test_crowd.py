"""Several labels per item: Dawid and Skene's model by its definition, agreement, checked items, commands."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

import nacp
from nacp.estimation import accuracy_by_annotator
from nacp.estimation.votes import open_votes
from nacp.labels import from_matrix, read
from nacp.stats.dawid_skene import dawid_skene, pooled, scaled
from tests.cli.command_line import done, printed_json, write


def crowd(seed, n=300, k=3, rates=(0.1, 0.3, 0.5), missing=0.2):
    """True classes, and labels by annotators with uniform noise; each item has one at least."""
    rng = np.random.default_rng(seed)
    true = rng.integers(k, size=n)
    table = np.stack([nacp.UniformNoise(rate).sample(true, k, rng) for rate in rates], axis=1)
    gone = rng.random(table.shape) < missing
    gone[np.arange(n), rng.integers(len(rates), size=n)] = False
    return true, np.where(gone, -1, table)


def by_enumeration(table, matrices, priors, known):
    """The posterior, and the likelihood of all answers, by going through every assignment of classes."""
    n, k = len(table), len(priors)
    posterior, total = np.zeros((n, k)), 0.0
    for classes in product(range(k), repeat=n):
        if any(known[i] not in (-1, c) for i, c in enumerate(classes)):
            continue
        chance = math.prod(
            priors[c] * math.prod(matrices[a][c][y] for a, y in enumerate(row) if y >= 0)
            for c, row in zip(classes, table.tolist(), strict=True)
        )
        posterior[np.arange(n), classes] += chance
        total += chance
    return posterior / total, math.log(total)


@pytest.mark.parametrize("gold", [0, 2], ids=["nothing known", "two known"])
def test_a_step_is_what_enumeration_says(gold):
    true, table = crowd(1, n=6)
    known = np.where(np.arange(6) < gold, true, -1)
    fit = dawid_skene(table, 3, known, steps=3)
    # Where a climb is stopped, the counts are those of its last maximisation, the posterior is by these.
    before = dawid_skene(table, 3, known, steps=2)
    counts = np.zeros((3, 3, 3))
    for i, row in enumerate(table.tolist()):
        for a, label in enumerate(row):
            if label >= 0:
                counts[a, :, label] += before.posterior[i]
    np.testing.assert_allclose(fit.counts, counts, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fit.priors, before.posterior.mean(axis=0), rtol=0, atol=1e-12)
    posterior, likelihood = by_enumeration(table, fit.matrices, fit.priors, known)
    np.testing.assert_allclose(fit.posterior, posterior, rtol=0, atol=1e-10)
    assert fit.log_likelihood[-1] == pytest.approx(likelihood, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_likelihood_never_falls(seed):
    true, table = crowd(seed, n=40 + 10 * seed, k=2 + seed % 4, rates=np.linspace(0.1, 0.9, 3 + seed % 3))
    known = np.where(np.arange(len(true)) % 5 == 0, true, -1) if seed % 2 else None
    fit = dawid_skene(table, 2 + seed % 4, known)
    assert len(fit.log_likelihood) > 2
    assert np.diff(fit.log_likelihood).min() > -1e-9 * len(table)
    np.testing.assert_allclose(fit.posterior.sum(axis=1), 1, rtol=0, atol=1e-9)


def test_no_scaled_matrix_has_more_errors_than_labels():
    """An annotator who is always wrong, by a mean matrix in which the second class is harder."""
    mean = np.array([[0.9, 0.1], [0.4, 0.6]])
    wrong, right = np.array([[0.0, 9], [9, 0]]), np.array([[9.0, 0], [0, 9]])
    found = scaled(np.stack([wrong, right]), mean)
    np.testing.assert_allclose(found[0], [[0.75, 0.25], [1, 0]])
    np.testing.assert_allclose(found[1], np.eye(2) + (mean - np.eye(2)) / (1 + 9 * 0.5))


def test_rows_without_data_are_uniform():
    fit = dawid_skene(np.array([[0, 1], [1, -1]]), 3, np.array([0, 1]))
    np.testing.assert_array_equal(fit.matrices[1], [[0, 1, 0], [1 / 3] * 3, [1 / 3] * 3])


def test_pooled_is_the_matrix_of_a_label_picked_from_a_random_item():
    """Items with many labels count no more than others, as in a calibration."""
    k, n = 2, 20_000
    rng = np.random.default_rng(6)
    true = rng.integers(k, size=n)
    rates = np.array([0.1, 0.6, 0.6, 0.6])
    table = np.stack([nacp.UniformNoise(rate).sample(true, k, rng) for rate in rates], axis=1)
    table[: n // 2, 1:] = -1  # half of the items have the careful one's label only
    fit = dawid_skene(table, k, true)
    wrong = (0.5 * 0.1 + 0.5 * rates.mean()) / 2
    assert pooled(fit, table)[0, 1] == pytest.approx(wrong, abs=4 * math.sqrt(wrong / (n / k)))


@pytest.mark.filterwarnings("ignore:the annotators have not one rate:nacp.NoiseModelWarning")
def test_the_crowd_is_taken_from_a_table_as_from_an_array():
    true, table = crowd(7, n=900)
    clean = np.where(np.arange(900) < 90, true, -1)
    names = ["x", "y", "z"]
    given = from_matrix(np.where(table < 0, "", np.array(names)[table]))
    given = given.with_checked({i: names[y] for i, y in enumerate(true[:90])})
    for model in ("auto", "uniform", "matrix", "annotators"):
        found = nacp.noise_from_annotators(table, k=3, model=model, clean=clean)
        again = nacp.noise_from_annotators(given, classes=names, model=model)
        assert again.noise == found.noise
        assert str(again) == str(found)
    with pytest.raises(nacp.InputError, match="classes is not given, and the labels are names such as 'x'"):
        nacp.noise_from_annotators(given)
    with pytest.raises(nacp.InputError, match=r"clean belongs into the table; pass labels\.with_checked"):
        nacp.noise_from_annotators(given, classes=names, clean=clean)


@pytest.mark.parametrize("gold", [0, 400])
def test_annotators_who_differ_are_not_given_one_rate(gold):
    """One rate comes out too high, the unsafe side; a matrix for each has the share of wrong labels."""
    k, rates = 10, (0.02, 0.1, 0.6, 0.9)
    true, table = crowd(11, n=3000, k=k, rates=rates, missing=0.4)
    clean = np.where(np.arange(3000) < gold, true, -1) if gold else None
    found = nacp.noise_from_annotators(table, k=k, clean=clean)
    assert isinstance(found.noise, nacp.AnnotatorNoise)
    assert "one rate for all is excluded, as annotator 0 agrees with another in" in found.why
    there = table >= 0
    wrong = np.mean((table != true[:, None])[there])
    error = math.sqrt(0.25 / there.sum())
    assert found.wrong == pytest.approx(wrong, abs=0.02 + 3 * error)
    with pytest.warns(nacp.NoiseModelWarning, match=r"have not one rate: annotator 0 .* too high"):
        one = nacp.noise_from_annotators(table, k=k, clean=clean, model="uniform")
    assert one.interval[0] * (1 - 1 / k) > wrong + 3 * error


def test_checked_items_show_that_two_annotators_differ():
    true, table = crowd(12, n=600, k=4, rates=(0.05, 0.5), missing=0)
    assert nacp.noise_from_annotators(table, k=4).noise.name == "uniform"  # of two, nothing says which
    found = nacp.noise_from_annotators(table, k=4, clean=np.where(np.arange(600) < 200, true, -1))
    assert "annotator 0 is right in" in found.why


@pytest.mark.parametrize(("annotators", "k", "missing"), [(3, 4, 0.0), (8, 10, 0.6), (40, 2, 0.9)])
def test_annotators_at_one_rate_are_seldom_told_apart(annotators, k, missing):
    runs, noise = 60, nacp.UniformNoise(0.3)
    rng, apart = np.random.default_rng(13), 0
    for _ in range(runs):
        true = rng.integers(k, size=300)
        table = np.stack([noise.sample(true, k, rng) for _ in range(annotators)], axis=1)
        table[rng.random(table.shape) < missing] = -1
        clean = np.where(np.arange(300) < 60, true, -1)
        apart += bool(open_votes(table, k, None, clean).used.unlike)
    assert stats.binom.sf(apart - 1, runs, 0.05) > 1e-4


def test_checked_labels_alone_have_clopper_and_pearsons_interval():
    true = np.arange(400) % 4
    labels = true.copy()
    labels[:100] = (labels[:100] + 1) % 4
    found = nacp.noise_from_annotators(labels[:, None], k=4, clean=true)
    ends = np.array(stats.binomtest(300, 400).proportion_ci(0.95, method="exact"))
    expected = 1 - (4 * np.append(ends, 0.75) - 1) / 3
    np.testing.assert_allclose((*found.interval[::-1], found.rate), expected, rtol=0, atol=1e-8)


def test_with_checked_items_the_interval_covers_and_is_no_wider():
    runs, inside, widths = 40, 0, []
    for seed in range(runs):
        true, table = crowd(seed, n=100, k=5, rates=(0.3, 0.3, 0.3))
        clean = np.where(np.arange(100) < 50, true, -1)
        low, high = nacp.noise_from_annotators(table, k=5, clean=clean).interval
        inside += low <= 0.3 <= high
        without = nacp.noise_from_annotators(table, k=5).interval
        widths.append((high - low) - (without[1] - without[0]))
    assert stats.binom.cdf(inside, runs, 0.95) > 1e-4
    assert np.mean(widths) < 0


def test_one_label_for_each_item_says_nothing_unless_it_was_checked():
    true, table = crowd(8)
    alone = np.where(np.arange(3) == np.argmax(table >= 0, axis=1)[:, None], table, -1)
    with pytest.raises(nacp.InputError, match="holds no item with two labels"):
        nacp.noise_from_annotators(alone, k=3)
    found = nacp.noise_from_annotators(alone, k=3, model="matrix", clean=true)
    assert found.n == 300


def test_accuracies_are_found_and_their_intervals_hold():
    rates, runs, inside = (0.1, 0.3, 0.5, 0.7), 30, np.zeros(4)
    right = 1 - np.array(rates) * 2 / 3
    for seed in range(runs):
        true, table = crowd(seed, n=600, rates=rates, missing=0.3)
        found = accuracy_by_annotator(table, k=3, clean=np.where(np.arange(600) < 60, true, -1))
        inside += [row.low <= r <= row.high for row, r in zip(found.rows, right, strict=True)]
    # The interval takes the others' matrices as known, so it is a little too short: 90% at the least.
    assert stats.binom.cdf(inside.min(), runs, 0.9) > 1e-3
    row = found.rows[2]
    there = (table[:, 2] >= 0) & (np.arange(600) < 60)
    assert (row.labels, row.gold) == (np.count_nonzero(table[:, 2] >= 0), np.count_nonzero(there))
    assert row.gold_right == np.count_nonzero(table[there, 2] == true[there])
    assert [each.annotator for each in found.worst_first()] == [3, 2, 1, 0]


@pytest.fixture
def export(tmp_path, monkeypatch):
    """A long CSV with names, some of them checked, and the probabilities of its items in another order."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n, names = 300, ["cat", "dog", "eel"]
    true = rng.integers(3, size=n)
    probs = 0.7 * np.eye(3)[true] + 0.3 * rng.dirichlet(np.ones(3), size=n)
    np.save("probs.npy", probs)
    np.save("true.npy", true)
    (tmp_path / "names.txt").write_text("\n".join(names))
    (tmp_path / "items.txt").write_text("\n".join(f"item-{i}" for i in range(n)))
    rows = [["task", "worker", "label", "gold"]]
    for i, (who, rate) in product(rng.permutation(n), zip("xyz", (0.1, 0.2, 0.6), strict=True)):
        label = nacp.UniformNoise(rate).sample([true[i]], 3, rng)[0]
        rows.append([f"item-{i}", who, names[label], names[true[i]] if i % 4 == 0 else ""])
    write("answers.csv", rows)
    return tmp_path


def test_an_interval_holds_the_share_it_is_of():
    """Of one whose word alone decides an item 100% were right, and the interval was 0.2% to 99.8%."""
    true, table = np.arange(120) % 3, np.full((120, 4), -1)
    for a, rate in enumerate((0.2, 0.2, 0.2)):
        table[:, a] = nacp.UniformNoise(rate).sample(true, 3, random_state=a)
    table[::10, 3] = true[::10]
    found = accuracy_by_annotator(table, k=3)
    assert found.rows[3].accuracy == pytest.approx(1, abs=1e-6)
    for row in found.rows:
        assert 0 <= row.low <= row.accuracy <= row.high <= 1


def test_from_an_export_to_a_calibration(export):
    given = ("noise", "annotators", "answers.csv", "--classes", "names.txt", "--model", "annotators")
    text = done(*given, "--labels", "labels.npz", "--items", "items.txt")
    assert (
        "Written: noise.json, for nacp calibrate --noise noise.json\nWritten: labels.npz, the labels" in text
    )
    assert all(len(line) <= 80 for line in text.split("\n\n")[0].splitlines())
    names = ["cat", "dog", "eel"]
    table = read("answers.csv")
    estimate = nacp.noise_from_annotators(table, classes=names, model="annotators")
    assert nacp.estimation.load("noise.json").noise == estimate.noise
    done("calibrate", "probs.npy", "labels.npz", "--noise", "noise.json", "--classes", "names.txt")
    items = [f"item-{i}" for i in range(300)]
    found = nacp.calibrate(np.load("probs.npy"), table.matrix(items), noise=estimate, classes=names)
    assert nacp.load("cal.json").threshold == found.threshold
    done(*given, "--labels", "labels.csv", "--items", "items.txt")
    done(
        "calibrate", "probs.npy", "labels.csv:vote", "--clean", "labels.csv:checked", "--classes", "names.txt"
    )
    votes, clean = table.votes(items), table.clean(items)
    found = nacp.calibrate(np.load("probs.npy"), votes, clean=clean, classes=names)
    assert nacp.load("cal.json").threshold == found.threshold
    assert found.checked == 75
    # The noise is of single labels; votes are wrong less often.
    for command in ("calibrate", "compare", "report"):
        given = ("probs.npy", "labels.csv:vote", "--noise", "noise.json", "--classes", "names.txt")
        refused = "labels.csv:vote holds votes, and noise.json is the noise of single labels"
        assert refused in done(command, *given, code=2)
    done("calibrate", "probs.npy", "labels.csv:vote", "--noise", "0.1", "--classes", "names.txt")


def test_the_command_line_as_json(export):
    given = ("noise", "annotators", "answers.csv", "--classes", "names.txt")
    document = printed_json(*given)
    expected = accuracy_by_annotator(read("answers.csv"), classes=["cat", "dog", "eel"])
    assert document["annotators"] == [row._asdict() for row in expected.rows]
    rows = [line.split(",")[:3] for line in (export / "answers.csv").read_text().splitlines()]
    (export / "answers.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    rows = printed_json(*given, "--expert", "x")["annotators"]
    assert sorted((row["annotator"], row["gold"]) for row in rows) == [("y", 300), ("z", 300)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--expert w", "--expert is 'w', and the annotators are"),
        ("--control w", "--control has no use for a file in the format records"),
        ("--label w", "--label is 'w', and the columns are 'task', 'worker', 'label', 'gold'"),
        ("--format w", "--format must be one of 'label-studio', 'argilla', 'records', 'matrix'"),
        ("--labels answers.csv", "answers.csv would overwrite what is read"),
        ("--labels labels.txt", "labels.txt must end in .npz or .csv"),
        ("--labels labels.csv --items names.txt", "--items names 'cat', which the labels do not have"),
    ],
)
def test_the_command_line_refuses(export, options, message):
    given = ["noise", "annotators", "answers.csv", "--classes", "names.txt"]
    assert message in done(*given, *options.split(), code=2)
    assert not (export / "noise.json").exists()


@pytest.mark.parametrize("labels", [["cat", "dog", "eel"], ["0", "1", "2"]])
def test_a_column_for_each_annotator_keeps_names_and_ids(export, labels):
    rows = [f"pic-{i}," + ",".join([labels[i % 3]] * 3) for i in range(60)]
    (export / "wide.csv").write_text("\n".join(["id,Ann,Bob,Cid", *rows]))
    (export / "order.txt").write_text("".join(f"pic-{i}\n" for i in reversed(range(60))))
    given = ("noise", "annotators", "wide.csv", "--classes", "names.txt", "--labels", "labels.csv")
    assert [row["annotator"] for row in printed_json(*given)["annotators"]] == ["Ann", "Bob", "Cid"]
    assert (export / "labels.csv").read_text().splitlines()[1] == "pic-0,cat,cat,"
    rows = printed_json(*given, "--expert", "Cid", "--items", "order.txt")["annotators"]
    assert [(row["annotator"], row["gold"]) for row in rows] == [("Ann", 60), ("Bob", 60)]
    assert (export / "labels.csv").read_text().splitlines()[1] == "pic-59,eel,eel,eel"
    refused = done(*given, "--expert", "Dan", code=2)
    assert "--expert is 'Dan', and the annotators are Ann, Bob, Cid" in refused
