

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
