"""What a simulated twin gives over its draws, in the limit of many splits.

For example ``python benchmarks/twin_draws.py cifar10 tinyimagenet``. Thresholds are those of a whole draw:
oracle CP and NACP cover 90% and 90% + Δ of it, and Noisy-CP puts 0.8 F^c + 0.2 F^r at its quantile.
docs/reproduction.md tells what follows.
"""

import argparse
import math

import numpy as np

from nacp.guarantees.nacp import nacp_correction
from nacp.paper import printed, twins
from nacp.scores import as_score

ROWS = {
    "oracle size": ("CP (oracle)", "size"),
    "NACP size": ("NACP", "size"),
    "Noisy-CP size": ("Noisy-CP", "size"),
    "Noisy-CP coverage %": ("Noisy-CP", "coverage"),
}


def one_draw(name, draw, score):
    probs, labels = twins.simulate(name, random_state=draw)
    (rows, k), n, block = probs.shape, len(probs) // 2, 1000
    scores = np.concatenate(
        [as_score(score).native_matrix(probs[i : i + block]) for i in range(0, rows, block)]
    )
    own = np.sort(scores[np.arange(rows), labels])
    ascending = np.sort(scores, axis=None)

    def size(q):
        return np.searchsorted(ascending, q, side="right") / rows

    def coverage(q):
        return np.searchsorted(own, q, side="right") / rows

    def covering(share):
        return size(own[math.ceil(share * rows) - 1])

    quantile = math.ceil(0.9 * (n + 1)) / n
    low, high = 0, len(ascending) - 1
    while low < high:  # the first pair at which the noisy distribution function is at the quantile
        middle = (low + high) // 2
        q = ascending[middle]
        reached = 0.8 * coverage(q) + 0.2 * size(q) / k >= quantile
        low, high = (low, middle) if reached else (middle + 1, high)
    q = ascending[low]
    corrected = 0.9 + nacp_correction(n, 0.2, 0.001)
    return covering(0.9), covering(corrected), size(q), 100 * coverage(q)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("twins", nargs="+", choices=twins.TWINS)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--scores", nargs="+", choices=printed.SCORES, default=printed.SCORES)
    chosen = parser.parse_args()
    print("| twin | score | | paper | mean | sd | least | most |\n|---|---|---|---|---|---|---|---|")
    for name in chosen.twins:
        for score in chosen.scores:
            found = np.array([one_draw(name, draw, score) for draw in range(chosen.draws)]).T
            for (row, (method, what)), values in zip(ROWS.items(), found, strict=True):
                paper = getattr(printed.CELLS[name, score, method], what).text
                told = [values.mean(), values.std(ddof=1), values.min(), values.max()]
                numbers = " | ".join(f"{value:.3f}" for value in told)
                print(f"| {name} | {score.upper()} | {row} | {paper} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
