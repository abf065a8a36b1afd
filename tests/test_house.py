"""Imports point one way, a calibration is a value, tallies add up, and repaired faults stay repaired."""

import ast
import copy
import dataclasses
import math
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import nacp
from nacp.coverage.grid import GRID, cells_of
from nacp.coverage.sample import Sample
from nacp.coverage.tally import Tally, Weights
from nacp.guarantees import GUARANTEES, Corrected
from nacp.paper import twins
from nacp.paper.methods import Method
from nacp.paper.splits import run_splits
from nacp.points import arrays, open_points, watching
from nacp.stats.bounds import expected_excess

SOURCE = Path(nacp.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# Imports

# From the top layer to the lowest: a module imports from its own layer and from those below.
LAYERS = [
    {"nacp", "__init__", "__main__", "cli", "paper", "show"},
    {"advice", "estimation", "stream"},
    {
        "audit",
        "calibrate",
        "calibration",
        "groups",
        "marginal",
        "files",
        "sets",
        "metrics",
        "predictor",
        "verdict",
        "sklearn",
        "datasets",
        "labels",
        "versions",
    },
    {"guarantees"},
    {"coverage"},
    {"scores", "noise"},
    {"points"},
    {"engine"},
    {"coverage.grid", "stats", "errors", "checks", "wrapping", "_types"},
]
# What is imported upwards: inside a function, for a method that is a shortcut.
UPWARDS = {
    ("calibration", "nacp.advice.diagnosis"), ("calibration", "nacp.show.html"), ("advice", "nacp.show.html"),
    ("stream", "nacp.show.html"), ("metrics", "nacp.show.html"), ("sets", "nacp.show.html"),
    ("estimation", "nacp.show.html"), ("groups", "nacp.advice.diagnosis"), ("groups", "nacp.show.html"),
    ("guarantees", "nacp.audit.strata"),
}  # fmt: skip


def layer_of(module):
    module = module.removeprefix("nacp.")
    name = module if module == "coverage.grid" else module.split(".")[0]
    (layer,) = [i for i, names in enumerate(LAYERS) if name in names]
    return layer


def imported(code):
    """Yield the modules of nacp that a file imports, and whether inside a function or for its types only."""
    tree = ast.parse(code)
    inner = set()
    for node in ast.walk(tree):
        typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if typing_only or isinstance(node, ast.FunctionDef):
            inner |= set(ast.walk(node))
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module]
            if node.module == "nacp":  # from nacp import engine
                names = [f"nacp.{a.name}" if (SOURCE / a.name).is_dir() else "nacp" for a in node.names]
            elif node.module == "nacp.coverage":  # from nacp.coverage import grid
                names = [f"nacp.coverage.{a.name}" for a in node.names]
        yield from ((name, node in inner) for name in names if name.split(".")[0] == "nacp")


def wrong_imports(room, code):
    """Return what a file in a folder imports from a layer above, other than what may be."""
    return {
        module
        for module, inside in imported(code)
        if layer_of(module) < layer_of(room) and not (inside and (room, module) in UPWARDS)
    }


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    assert not wrong_imports(room_of(path), path.read_text(encoding="utf-8"))


def test_no_more_is_imported_upwards_than_has_to_be():
    found = {(room_of(path), module) for path in FILES for module, _ in imported(path.read_text("utf-8"))}
    assert found >= UPWARDS


@pytest.mark.parametrize(
    ("room", "code", "wrong"),
    [
        ("engine", "import numpy\nfrom nacp.errors import InputError", set()),
        ("engine", "from nacp.coverage.sample import Sample", {"nacp.coverage.sample"}),
        ("engine", "from nacp.coverage import grid", set()),
        ("engine", "def f():\n    import nacp.noise.matrix", {"nacp.noise.matrix"}),
        ("points", "from nacp import engine, calibrate", {"nacp"}),
        (
            "stats",
            "if TYPE_CHECKING:\n    from nacp.points import Rows",
            {"nacp.points"},
        ),
        ("sets", "def f():\n    from nacp.show.html import card", set()),
        ("sets", "from nacp.show.html import card", {"nacp.show.html"}),
        ("coverage", "def f():\n    from nacp.show.html import card", {"nacp.show.html"}),
    ],
)
def test_an_import_that_points_upwards_is_seen(room, code, wrong):
    assert wrong_imports(room, code) == wrong


N, K = 6000, 50
MATRIX = nacp.MatrixNoise(0.8 * np.eye(K) + 0.2 * np.random.default_rng(0).dirichlet(np.full(K, 0.3), K))
INTERVAL = nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95)


@pytest.fixture(scope="module")
def points():
    """A twin whose classes were joined in pairs: probabilities, true labels, noisy labels."""
    probs, labels = twins.simulate("cifar100", n=N, random_state=0)
    probs, labels = probs.reshape(N, K, 2).sum(axis=2), labels // 2
    return probs, labels, nacp.UniformNoise(0.2).sample(labels, K, random_state=1)


def rows_read(call, *args, **options):
    """Return how many rows were checked or read."""
    seen = []
    with watching(seen.append), warnings.catch_warnings():
        warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
        call(*args, **options)
    return sum(seen)


# A calibration is a value


@pytest.mark.parametrize("noise", [0.2, INTERVAL, MATRIX], ids=["uniform", "interval", "matrix"])
def test_a_calibration_does_not_see_what_becomes_of_the_points(points, noise):
    kept = nacp.calibrate(points[0], points[2], noise=noise)
    probs, labels = points[0].copy(), points[2].copy()
    cal = nacp.calibrate(probs, labels, noise=noise)
    probs[:], labels[:] = 1 / K, 0
    for name in ("thresholds", "noisy", "random", "clean"):
        assert np.array_equal(getattr(cal.curve, name), getattr(kept.curve, name))
    assert (str(cal), cal.floor, cal.tightness) == (str(kept), kept.floor, kept.tightness)
    assert len(cal.curve) > 100
    assert cal.curve.clean[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, dataclasses.replace, lambda cal: pickle.loads(pickle.dumps(cal))],
    ids=["copy", "deepcopy", "replace", "pickle"],
)
@pytest.mark.parametrize("noise", [0.2, MATRIX], ids=["uniform", "matrix"])
def test_copies_lose_nothing(points, noise, again):
    probs, _, noisy = points
    cal = nacp.calibrate(probs, noisy, noise=noise, score="aps")
    other = again(cal)
    assert other == cal
    assert other.tally == cal.tally
    assert np.array_equal(other.curve.clean, cal.curve.clean)
    assert (other.floor, str(other)) == (cal.floor, str(cal))
    assert other.predict_set(probs[:50]).to_lists() == cal.predict_set(probs[:50]).to_lists()


# Delta, and guarantees of one's own


@pytest.mark.parametrize("guarantee", ["expected", "acnl", "crcp", "none", "split"])
def test_a_delta_without_effect_is_refused(points, guarantee):
    noise = None if guarantee == "split" else 0.2
    with pytest.raises(nacp.InputError, match=f'delta has no effect on guarantee "{guarantee}"') as caught:
        nacp.calibrate(points[0], points[2], noise=noise, guarantee=guarantee, delta=1e-4)
    assert caught.value.argument == "delta"


@dataclass(frozen=True)
class Cautious(Corrected):
    """A guarantee of one's own."""

    delta: float = 0.5
    name: ClassVar[str] = "cautious"

    def correction(self, problem):
        return math.sqrt(math.log(1 / self.delta) / problem.n)

    def promise(self, alpha):
        return f"for {1 - self.delta:g} of calibration sets, coverage is about {1 - alpha:g}"


def test_a_guarantee_of_ones_own_needs_a_class_and_a_line(points, monkeypatch):
    monkeypatch.setitem(GUARANTEES, "cautious", Cautious)
    probs, _, noisy = points
    cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="cautious", delta=1e-4)
    assert cal.guarantee == Cautious(1e-4)
    assert cal.correction == math.sqrt(math.log(1e4) / N)
    assert cal.estimate >= 0.9 + cal.correction
    planned = {row.guarantee.name: row for row in nacp.plan(k=K, noise=0.2, n=N, delta=1e-4).rows}
    assert planned["cautious"].guarantee == cal.guarantee
    assert planned["cautious"].correction == cal.correction
    rows = nacp.compare(probs, noisy, noise=0.2, scores=["hps"], delta=1e-4).rows
    assert [row.calibration for row in rows if row.guarantee == "cautious"] == [cal]


def test_a_guarantee_that_does_not_apply_is_refused_before_any_row_is_read(points):
    def refused():
        with pytest.raises(nacp.InputError, match='guarantee "binomial" holds for uniform noise only'):
            nacp.calibrate(points[0], points[2], noise=MATRIX, guarantee="binomial")

    assert rows_read(refused) == 0


def test_a_rate_is_refused_where_its_matrix_is(points):
    rate = nacp.UniformNoise(0.995)
    for noise in (rate, rate.matrix(K).dense()):
        with pytest.raises(nacp.InputError, match="noise is too ill-conditioned for 6,000 points"):
            nacp.calibrate(points[0], points[2], noise=noise)


# Tallies


@pytest.mark.parametrize("noise", [nacp.UniformNoise(0.2), MATRIX], ids=["uniform", "matrix"])
@pytest.mark.parametrize("score", [nacp.HPS(), nacp.APS()], ids=repr)
def test_the_tallies_of_two_halves_add_up_to_that_of_all(points, noise, score):
    probs, _, noisy = points
    weights = Weights(noise.inverse(K))

    def tally(some):
        rows, labels, _ = open_points(probs[some], noisy[some])
        return Tally.of(Sample.of(rows, labels, score), weights, squares=True)

    first, second, every = tally(slice(0, N, 2)), tally(slice(1, N, 2)), tally(slice(None))
    assert first + second == second + first == every
    assert every - second == first
    assert (every.pairs.sum(), every.hits.sum()) == (N * K, N)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "block_entries", lambda in_place: 7 * K)
        assert tally(slice(None)) == every


# What was found wrong


def test_an_estimate_for_other_classes_is_refused(points):
    probs, labels, noisy = points
    estimate = nacp.noise_from_privacy(5.0, k=100)
    calls = [
        lambda: nacp.calibrate(probs, noisy, noise=estimate),
        lambda: nacp.compare_with_noisy_cp(probs, noisy, noise=estimate),
        lambda: run_splits(probs, labels, noise=estimate, splits=2),
        lambda: nacp.plan(k=K, noise=estimate),
    ]
    for call in calls:
        with pytest.raises(nacp.InputError, match=r"noise .*100.*50"):
            call()


def test_splits_refuse_what_calibrate_refuses(points):
    probs, labels, _ = points
    tested = [Method("pac", False, True, nacp.PAC())]
    with pytest.raises(nacp.InputError, match=r'methods hold "pac", which judges thresholds'):
        run_splits(probs, labels, noise=0.2, methods=tested, crossing="first", splits=2)
    with pytest.raises(nacp.InputError, match="noise must be known exactly"):
        run_splits(probs, labels, noise=INTERVAL, splits=2)


def test_sensitivity_of_a_loaded_calibration_needs_the_points_only(points, tmp_path):
    probs, _, noisy = points
    cal = nacp.calibrate(probs, noisy, noise=0.2)
    cal.save(tmp_path / "cal.json")
    found = nacp.sensitivity(nacp.load(tmp_path / "cal.json"), probs, noisy, shifts=[-0.05, 0.0])
    assert found == nacp.sensitivity(cal, probs, noisy, shifts=[-0.05, 0.0])
    assert found.rows[1].threshold == cal.threshold


def exchange(scores, labels, rate, alpha):
    """Return the threshold and the gap of "expected" by its definition: E3 at points of the grid, and E1."""
    scores = GRID[cells_of(scores)]
    n, k = scores.shape
    weights = np.linalg.inv(nacp.UniformNoise(rate).matrix(k).dense())
    negative = np.minimum(weights, 0)
    low, high = negative.sum(axis=1).min(), (weights - negative).sum(axis=1).max()
    every = [-np.inf, *np.unique(scores), np.inf]

    def clean(q):
        return ((scores <= q) * weights[labels]).sum() / n

    def lowest(passes):
        """Return the lowest threshold from which on all pass."""
        failed = [i for i, q in enumerate(every) if not passes(clean(q))]
        return np.inf if failed and failed[-1] == len(every) - 1 else every[failed[-1] + 1 if failed else 0]

    q, q_low = (
        lowest(lambda clean, more=more: (n * clean + more) / (n + 1) >= 1 - alpha - 1e-12)
        for more in (low, high)
    )
    gap = 0.0 if q == np.inf else rate / (1 - rate) * ((scores <= q).mean() - (scores <= q_low).mean())
    if gap > min(3 / n, alpha / 10) + 1e-12:
        q = lowest(lambda clean: clean >= 1 - alpha + (high - low) * expected_excess(n) - 1e-12)
    return q, gap


def small_cases(seed):
    """Yield small problems of all sorts, some with ties: scores, labels, and two rates."""
    rng = np.random.default_rng(seed)
    for _ in range(150):
        n, k = rng.integers(6, 12), rng.integers(2, 6)
        scores = rng.standard_normal((n, k)) if rng.random() < 0.5 else rng.integers(-3, 4, (n, k)) / 4
        yield (
            scores,
            rng.integers(k, size=n),
            *np.sort(rng.choice([0.0, 0.1, 0.3, 0.5, 0.6], 2, replace=False)),
        )


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5, 0.7, 0.8])
def test_expected_is_what_its_definition_says_on_the_smallest_problems(alpha):
    gaps, below = [], 0
    for scores, labels, low, high in small_cases(seed=int(10 * alpha)):
        options = {"score": "precomputed", "guarantee": "expected", "alpha": alpha}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
            cal = nacp.calibrate(scores, labels, noise=high, **options)
            doubtful = nacp.UniformNoise((low + high) / 2, interval=(low, high))
            between = nacp.calibrate(scores, labels, noise=doubtful, **options)
        ends = [exchange(scores, labels, rate, alpha) for rate in (low, high)]
        assert (cal.threshold, cal.gap) == (ends[1][0], pytest.approx(ends[1][1], abs=1e-12))
        assert between.threshold == max(q for q, _ in ends)
        assert between.gap == pytest.approx(max(gap for _, gap in ends), abs=1e-12)
        gaps.append(cal.gap)
        below += cal.threshold < np.inf
    assert below > 0 or alpha == 0.1
    assert max(gaps) > 0 or alpha == 0.1, "hard cases are among them"


HUGE = {
    "1e300": np.float64(1e300),
    "1e-300": np.float64(1e-300),
    "largest": np.finfo(np.float64).max,
    "largest float32": np.finfo(np.float32).max,
}


@pytest.mark.parametrize("size", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_scores_of_any_size_do_not_overflow(guarantee, size):
    rng = np.random.default_rng(0)
    n, k, alphas = 300, 4, [0.1, 0.2, 0.5, 0.8]
    labels = rng.integers(k, size=n)
    scores = (rng.uniform(-0.5, 1, (n, k)) - 0.5 * np.eye(k)[labels]).astype(type(size)) * size
    noise = None if guarantee == "split" else 0.2
    options = {"noise": noise, "score": "precomputed", "guarantee": guarantee}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
        together = nacp.calibrate(scores, labels, alpha=alphas, **options)
        alone = [nacp.calibrate(scores, labels, alpha=alpha, **options) for alpha in alphas]
        sets = [cal.predict_set(scores).to_lists() for cal in together]
    assert together == alone
    for cal, found in zip(together, sets, strict=True):
        assert found == [np.flatnonzero(row <= cal.threshold).tolist() for row in scores]
