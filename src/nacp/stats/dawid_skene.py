"""The model of Dawid and Skene (1979): each annotator has a confusion matrix, and answers are independent.

The likelihood is maximised by the EM algorithm, which starts from the shares of the votes.
"""

from typing import NamedTuple

import numpy as np

from nacp._types import Floats, Ints


class DawidSkene(NamedTuple):
    """A fitted model."""

    posterior: Floats  # the probability of each class for each item: (n, k)
    counts: Floats  # the expected number of items of class i to which an annotator gave label j
    priors: Floats  # the frequencies of the classes
    log_likelihood: Floats  # that of the answers after each step, which never falls

    @property
    def matrices(self) -> Floats:
        """The annotators' matrices, rows the true class; rows without data are uniform."""
        totals = self.counts.sum(axis=2, keepdims=True)
        return np.where(totals > 0, self.counts / np.where(totals > 0, totals, 1), 1 / len(self.priors))


def dawid_skene(
    table: Ints, k: int, known: Ints | None = None, *, steps: int = 1000, tolerance: float = 1e-7
) -> DawidSkene:
    """Fit the model to a table of answers.

    `table`, of shape (n, annotators), holds labels from 0 to k - 1, and -1 where there is none; `known` the
    known classes of items, and -1 for others. Every item has at least one label, or is known. The algorithm
    stops after `steps` steps, or when one increases the log-likelihood by less than `tolerance` per answer.
    """
    n, annotators = table.shape
    known = np.full(n, -1) if known is None else known
    items, by = np.nonzero(table >= 0)  # in the order of the items
    labels = table[items, by]
    answered, starts = np.unique(items, return_index=True)
    cells = by * k + labels
    fixed = np.flatnonzero(known >= 0)

    posterior = np.zeros((n, k))
    np.add.at(posterior, (items, labels), 1.0)
    posterior[posterior.sum(axis=1) == 0] = 1.0
    posterior /= posterior.sum(axis=1, keepdims=True)
    posterior[fixed] = np.eye(k)[known[fixed]]

    likelihoods: list[float] = []
    for _ in range(steps):
        each = [np.bincount(cells, posterior[items, i], minlength=annotators * k) for i in range(k)]
        counts = np.stack(each).reshape(k, annotators, k)
        fit = DawidSkene(posterior, np.swapaxes(counts, 0, 1), posterior.mean(axis=0), np.array(likelihoods))
        with np.errstate(divide="ignore"):
            logs, joint = np.log(fit.matrices), np.tile(np.log(fit.priors), (n, 1))
        if len(items):
            joint[answered] += np.add.reduceat(logs[by, :, labels], starts, axis=0)
        top = joint.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))
        total[fixed] = joint[fixed, known[fixed]]
        likelihoods.append(float(total.sum()))
        posterior = np.exp(joint - total[:, None])
        posterior[fixed] = np.eye(k)[known[fixed]]
        if len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] < tolerance * max(len(items), 1):
            break
    return fit._replace(posterior=posterior, log_likelihood=np.array(likelihoods))


def pooled(fit: DawidSkene, table: Ints) -> Floats:
    """Return the matrix of a label picked at random from those of a random item; 0 in rows without data."""
    k = len(fit.priors)
    items, by = np.nonzero(table >= 0)
    share = fit.posterior[items] / np.count_nonzero(table >= 0, axis=1)[items, None]
    joint = np.stack([np.bincount(table[items, by], share[:, i], minlength=k) for i in range(k)])
    totals = joint.sum(axis=1, keepdims=True)
    return np.asarray(joint / np.where(totals > 0, totals, 1))


def scaled(counts: Floats, mean: Floats) -> Floats:
    """Return a matrix for each annotator, with off-diagonal entries proportional to those of the mean.

    Few annotators give enough labels for the k (k - 1) unknowns of a full matrix. So each one's labels only
    determine a factor: the number of errors divided by the number that the mean matrix would have made, with
    one more of both.
    """
    error = 1 - np.diag(mean)
    wrong = counts.sum(axis=(1, 2)) - np.trace(counts, axis1=1, axis2=2)
    times = (wrong + 1) / (counts.sum(axis=2) @ error + 1)
    times = np.minimum(times, 1 / max(error.max(), 1e-12))
    return np.asarray(times[:, None, None] * (mean - np.eye(len(mean))) + np.eye(len(mean)))
