"""Many random calibration/test splits of the same points; `nacp.paper.split_curves` does what they share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Bools, Floats, Ints
from nacp.checks import check_alphas, check_choice, check_count
from nacp.coverage.curve import RULES, Rule, inverse_of
from nacp.coverage.grid import INFINITE
from nacp.coverage.sample import Sample
from nacp.coverage.tally import Tally, Weights
from nacp.errors import InputError
from nacp.guarantees import Corrected, Guarantee, Problem, find
from nacp.marginal import Counted
from nacp.noise import Noise, NoiseLike, noise_for
from nacp.paper.methods import Method, six_methods
from nacp.paper.split_curves import Search, crossings, first_edges, mean_sizes
from nacp.points import check_labels, open_points
from nacp.scores import ScoreLike, as_score

_SAMPLED = 512  # from about that number of rows `first_edges` sees where scores are dense


@dataclass(frozen=True, eq=False)
class SplitResults:
    """What `run_splits` found; arrays of shape (methods, alphas, splits).

    Attributes
    ----------
    methods : list of Method
    alphas : list of float
    thresholds : array
        On the scale of the score.
    sizes : array
        Mean size of the test sets.
    coverages : array
        Share of test sets that contain the true label.
    corrections : array
        What was added to the target; the excess over it where thresholds are tested.
    """

    methods: list[Method]
    alphas: list[float]
    thresholds: Floats
    sizes: Floats
    coverages: Floats
    corrections: Floats


def draw_split(
    labels: Ints, k: int, noise: Noise | None, calibration: int, seed: int, split: int
) -> tuple[Bools, Ints]:
    """Return which rows calibrate in one split, and the noisy labels drawn for it."""
    rng = np.random.default_rng([seed, split])
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[rng.permutation(len(labels))[:calibration]] = True
    return chosen, labels if noise is None else noise.sample(labels, k, rng)


@dataclass(frozen=True, eq=False)
class _View:
    """The methods that see the same labels under the same noise model.

    Attributes
    ----------
    sees_clean : bool
    noise : Noise or None
    weights : Weights
    targeted : dict
        By the number of the method those guarantees whose thresholds `crossings` finds.
    others : dict
        The other ones, which are found as `calibrate` does, split by split.
    """

    sees_clean: bool
    noise: Noise | None
    weights: Weights
    targeted: dict[int, Corrected]
    others: dict[int, Guarantee]

    def corrections(self, sample: Sample, alphas: list[float]) -> Floats:
        """Return what the targeted methods add to their targets: (methods, alphas)."""
        counts = np.bincount(sample.labels[:, 0], minlength=sample.k).astype(np.float64)
        problems = [Problem(a, sample.n, self.noise, self.weights.inverse, counts) for a in alphas]
        return np.array(
            [[each.correction(problem) for problem in problems] for each in self.targeted.values()]
        )

    def find(
        self, sample: Sample, alphas: list[float], crossing: Rule, seed: int
    ) -> Iterator[tuple[int, int, float, float]]:
        """Yield method, number of the alpha, native threshold and correction of the other methods.

        The correction is the excess over the target where thresholds are tested.
        """
        pairs: Counted | None = None
        for m, each in self.others.items():
            if each.only_as_given:
                counted = _of_labels(sample, self.noise)
            else:
                squares = any(other.needs_squares for other in self.others.values())
                counted = pairs = pairs or Counted.of(sample, self.noise, squares=squares)
            results = find(each, counted.curve, self.noise, alphas, crossing, sample, seed)
            for a, (finding, *_) in enumerate(results):
                excess = min(finding.estimate, 1.0) - (1 - alphas[a])
                yield m, a, finding.threshold, finding.correction if isinstance(each, Corrected) else excess


def _of_labels(sample: Sample, noise: Noise | None) -> Counted:
    """Count labels only, for a guarantee that takes them as they are: pairs then have no weight."""
    infinite = np.count_nonzero(sample.label_scores > sample.score.spec.thresholds[INFINITE - 1])
    by_label = np.bincount(sample.labels[:, 0], minlength=sample.k)
    hits, pairs = np.array([sample.n - infinite, infinite]), np.zeros(2, dtype=np.int64)
    tally = Tally(sample.n, sample.k, by_label, np.array([INFINITE - 1, INFINITE]), hits, pairs)
    return Counted.by(lambda _: tally, noise, sample.score, sample.k, several=False)


def _views(methods: Sequence[Method], noise: Noise | None, k: int) -> list[_View]:
    views: dict[tuple[bool, bool], _View] = {}
    for m, method in enumerate(methods):
        seen = method.sees_clean, method.noise_aware
        if seen not in views:
            model = noise if method.noise_aware else None
            views[seen] = _View(method.sees_clean, model, Weights(inverse_of(model, k)), {}, {})
        view, guarantee = views[seen], method.guarantee
        pair = view.weights.constant
        if (
            isinstance(guarantee, Corrected)
            and (type(guarantee).find, type(guarantee).cross) == (Corrected.find, Corrected.cross)
            and pair is not None
            and pair <= 0
        ):
            view.targeted[m] = guarantee
        else:
            view.others[m] = guarantee
    return list(views.values())


def run_splits(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike,
    alpha: float | Sequence[float] = 0.1,
    score: ScoreLike = "hps",
    methods: Sequence[Method] | None = None,
    splits: int = 1000,
    calibration: int | None = None,
    noisy_labels: ArrayLike | None = None,
    crossing: Rule = "last",
    random_state: int = 0,
    progress: Callable[[int], object] | None = None,
) -> SplitResults:
    """Calibrate and evaluate methods on many random splits; label noise is drawn anew for each.

    Thresholds, sizes and coverages are those of `calibrate` and `evaluate` on each split.

    Parameters
    ----------
    probs : array of shape (N, k)
        Class probabilities.
    labels : array of shape (N,)
        The true labels.
    noise : float, array of shape (k, k) or noise model
        The noise that corrupts the calibration labels. Where it is uniform, splits share most of their work.
    alpha, score, crossing
        As in `calibrate`.
    methods : sequence of Method, optional
        The paper's six by default.
    splits : int, default=1000
        How many.
    calibration : int, optional
        The number of calibration points; half of N by default.
    noisy_labels : array of shape (N,), optional
        The noisy labels of all splits, where there are real ones or they were drawn once.
    random_state : int, default=0
        The same number gives the same splits, whatever else is asked.
    progress : callable, optional
        Called with the number of splits that have been done.

    Returns
    -------
    SplitResults

    Examples
    --------
    >>> from nacp.paper import twins
    >>> from nacp.paper.splits import run_splits
    >>> probs, labels = twins.simulate("cifar10", n=2000)
    >>> found = run_splits(probs, labels, noise=0.2, splits=20)
    >>> found.coverages.shape
    (6, 1, 20)
    >>> bool(abs(found.coverages[2].mean() - 0.9) < 0.02)
    True
    """
    how = as_score(score)
    rows, clean, _ = open_points(probs, labels, probabilities=how.takes_probabilities)
    model = noise_for(noise, rows.k)
    if model is not None and not model.doubt.exact:
        raise InputError("noise", "must be known exactly: it is drawn from", found=repr(model))
    alphas = check_alphas(alpha)
    check_choice("crossing", crossing, RULES)
    n = rows.n // 2 if calibration is None else check_count("calibration", calibration, 1)
    if n >= rows.n:
        raise InputError("calibration", f"must leave points for testing: 1 to {rows.n - 1}", found=f"{n}")
    given = None if noisy_labels is None else check_labels(noisy_labels, rows.n, rows.k, name="noisy_labels")
    chosen_methods = six_methods(rows.k) if methods is None else list(methods)
    for method in chosen_methods:
        reason = method.guarantee.applies(model if method.noise_aware else None, crossing)
        if reason is not None:
            raise InputError("methods", f'hold "{method.name}", which {reason}')

    spec, views = how.spec, _views(chosen_methods, model, rows.k)
    scores = np.concatenate(list(rows.map(lambda values, _: engine.scores(values, spec))))
    true_scores = scores[np.arange(rows.n), clean]
    shape = (splits, len(chosen_methods), len(alphas))
    thresholds, corrections, coverages = np.empty(shape), np.empty(shape), np.empty(shape)
    masks = np.empty((splits, rows.n), dtype=bool)
    searches: list[Search] = []
    for split in range(splits):
        drawn = draw_split(clean, rows.k, model if given is None else None, n, random_state, split)
        masks[split], noisy = drawn[0], drawn[1] if given is None else given
        chosen = np.flatnonzero(masks[split])
        right = clean[chosen], true_scores[chosen]
        wrong = noisy[chosen], scores[chosen, noisy[chosen]]
        for view in views:
            labels, found = right if view.sees_clean else wrong
            sample = Sample(rows.some(chosen), labels[:, None], np.ones((n, 1)), how, found[:, None])
            if view.targeted:
                members = list(view.targeted)
                corrections[split, members] = added = view.corrections(sample, alphas)
                targets = 1 - np.array(alphas) + added
                cells = sample.label_cells[:, 0].astype(np.int32)
                searches.append(Search(split, members, cells, view.weights, targets))
            for m, a, threshold, correction in view.find(sample, alphas, crossing, split):
                thresholds[split, m, a], corrections[split, m, a] = threshold, correction
        if progress is not None:
            progress((split + 1) // 2)  # what follows takes about as long
    if searches:
        some = spec.cells_of(scores[:: rows.n // _SAMPLED + 1])
        edges = first_edges(spec.cells_of(true_scores), some)
        crossed = crossings(rows, spec, masks, searches, edges, crossing)
        for search, places in zip(searches, crossed, strict=True):
            thresholds[search.split, search.members] = spec.thresholds[places]
    for split, tested in enumerate(~masks):
        ascending = np.sort(true_scores[tested])
        coverages[split] = np.searchsorted(ascending, thresholds[split], side="right") / (rows.n - n)
    sizes = mean_sizes(scores, ~masks, thresholds.reshape(splits, -1)).reshape(shape)
    if progress is not None:
        progress(splits)
    results = (thresholds + how.offset, sizes, coverages, corrections)
    return SplitResults(chosen_methods, alphas, *(np.moveaxis(each, 0, -1) for each in results))
