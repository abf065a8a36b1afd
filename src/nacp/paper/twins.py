"""Simulated twins of the paper's seven classifiers.

A twin is a small generative model of one network's softmax matrix. Its parameters were fitted to the
*oracle* rows of the paper's tables (sizes at 90% coverage with clean labels) and, for ImageNet, to published
accuracies. It is a simulation of a classifier, not the classifier.
"""

from typing import NamedTuple

import numpy as np

from nacp._types import Array, Ints
from nacp.checks import check_choice


class Twin(NamedTuple):
    """The parameters of one twin.

    Example i is easy to the degree m_i ~ N(0, 1). Evidence for class j is ``N(0, 1) + tail (Exp(1) - 1)``,
    plus ``shift + ease m_i`` for the true class. The softmax of ``scale exp(growth m_i)`` times the evidence
    is mixed by ``smoothing Exp(1)`` with a distribution that is uniform but for a slight preference for the
    labels with more evidence: exact ties would enter a set together.

    `draw` is the `random_state`, from 0 to 9, whose oracle sizes (APS, RAPS, HPS at 90%) are nearest to their
    means over the ten, in percent. It is not fitted: the paper's numbers have no part in that choice.
    """

    k: int
    size: int
    shift: float
    ease: float
    scale: float
    tail: float
    growth: float
    smoothing: float = 0.0
    draw: int = 0


TWINS = {
    "cifar10": Twin(10, 10_000, 5.8757, 1.8718, 2.1972, 0.8460, 0.0550, draw=3),
    "cifar100": Twin(100, 20_000, 7.0681, 2.1511, 1.6772, 1.1402, 0.3502, draw=1),
    "tinyimagenet": Twin(200, 10_000, 6.4489, 2.5468, 1.9695, 0.8688, 0.4156, draw=4),
    "imagenet-resnet18": Twin(1000, 50_000, 7.7730, 2.1958, 1.5633, 0.8942, 0.0342, draw=5),
    "imagenet-resnet50": Twin(1000, 50_000, 7.4950, 1.8219, 2.1472, 0.7910, 0.2015, draw=8),
    "imagenet-densenet121": Twin(1000, 50_000, 8.1815, 2.2962, 1.7385, 0.8782, 0.0791, draw=4),
    "imagenet-vitb16": Twin(1000, 50_000, 9.7554, 2.5043, 3.1967, 1.0, 0.3948, 0.0161, draw=9),
}

_BLOCK_ROWS = 1024
_SLOPE = 1e-3  # enough to tell 1,000 labels apart in float32


def simulate(name: str, *, n: int | None = None, random_state: int = 0) -> tuple[Array, Ints]:
    """Draw a test set of one of the `TWINS`: single-precision probabilities, (n, k), and the true classes,
    (n,).

    By default it has as many examples as the paper's data set. The classes are balanced and shuffled.

    Examples
    --------
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=2000)
    >>> bool(abs((probs.argmax(axis=1) == labels).mean() - 0.933) < 0.02)
    True
    """
    twin = TWINS[check_choice("name", name, list(TWINS))]
    rng = np.random.default_rng(random_state)
    n = twin.size if n is None else n
    labels = rng.permutation(np.arange(n) % twin.k)
    probs = np.empty((n, twin.k), dtype=np.float32)
    for start in range(0, n, _BLOCK_ROWS):
        where = slice(start, min(start + _BLOCK_ROWS, n))
        probs[where] = _softmax_rows(twin, labels[where], rng)
    return probs, labels


def _softmax_rows(twin: Twin, labels: Ints, rng: np.random.Generator) -> Array:
    rows = len(labels)
    ease = rng.standard_normal(rows)
    evidence = rng.standard_normal((rows, twin.k))
    evidence += twin.tail * (rng.standard_exponential((rows, twin.k)) - 1)
    evidence[np.arange(rows), labels] += twin.shift + twin.ease * ease
    nearly_even = np.exp(_SLOPE * evidence) if twin.smoothing else None
    evidence *= (twin.scale * np.exp(twin.growth * ease))[:, None]
    evidence -= evidence.max(axis=1, keepdims=True)
    probs: Array = np.exp(evidence, out=evidence)
    probs /= probs.sum(axis=1, keepdims=True)
    if nearly_even is not None:
        nearly_even /= nearly_even.sum(axis=1, keepdims=True)
        mixed = np.minimum(0.9, twin.smoothing * rng.standard_exponential(rows))[:, None]
        probs = (1 - mixed) * probs + mixed * nearly_even
    return probs
