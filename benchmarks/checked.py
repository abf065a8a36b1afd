"""``make guarantees``: what are checked labels worth where people made the others? Writes
results/checked.md.

Run ``python benchmarks/checked.py --data FOLDER``, or set NACP_BENCHMARK_DATA to that folder. It must hold
cifar10.npz, cifar10n.npz and cifar100n.npz with human labels; nothing is written where it is not named.
"""

import argparse
import math
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy.stats import binom

import nacp
from nacp.paper import twins
from nacp.stats.counts import binomial_excess

OUT = Path(__file__).parent.parent / "results" / "checked.md"
ALPHA = DELTA = 0.1
CONFIDENCE = 0.95  # of the audit's interval or radius; "pac" then has the rest of delta
N = 5000
CHECKED = (50, 100, 200, 300, 1000)
MANY, MANY_N, LEFT = 5000, 10_000, 2500  # checked labels of so many points, but so many are left to test
BINOMIAL, CLEAN, CHOSEN = "checked alone, binomial", '`clean=`, "pac"', "`choose_audit`"
AUDIT, RATE, MATRIX = "audit, as it comes", "audit, one rate", "audit, matrix taken as exact"
NOISY, ORACLE = "noisy labels as they are", "oracle, 5,000 clean labels"


def label_sets(folder):
    """Yield the label sets: name, probabilities, true labels, noisy labels."""
    with np.load(folder / "cifar10.npz") as data:
        noisy = data["human_sampled_noisy_labels"].astype(int)
        yield "CIFAR-10H", data["probs"], data["labels"].astype(int), noisy
    with np.load(folder / "cifar10n.npz") as data:
        for kind in ("aggre", "random1", "worse"):
            noisy = data[f"noisy_labels_{kind}"].astype(int)
            yield f"CIFAR-10N {kind}", data["probs"], data["labels"].astype(int), noisy
    with np.load(folder / "cifar100n.npz") as data:
        yield "CIFAR-100N", data["probs"], data["labels"].astype(int), data["noisy_labels"].astype(int)
    probs, true = twins.simulate("cifar100", n=20_000)
    yield "twin, uniform", probs, true, nacp.UniformNoise(0.2).sample(true, 100, random_state=0)
    # Where the classifier is unsure, labels are wrong in the way that it is.
    first, second = np.argsort(-probs, axis=1)[:, :2].T
    wrong = np.random.default_rng(1).random(len(true)) < np.where(probs.max(axis=1) < 0.8, 0.45, 0.03)
    yield (
        "twin, wrong where unsure",
        probs,
        true,
        np.where(wrong, np.where(first == true, second, first), true),
    )


def binomial(scores):
    """Return the threshold of the exact binomial test on checked labels alone."""
    m = len(scores)
    rank = int(np.argmax(binom.sf(np.arange(m + 2) - 1, m, 1 - ALPHA) <= DELTA))
    return np.sort(scores)[rank - 1] if rank <= m else np.inf


def audited(way, probs, noisy, rows, true, score):
    """Return the threshold of "pac" with a noise model from the checked labels, and whether it refused."""
    model, delta = "auto", DELTA
    if way in (AUDIT, RATE):
        delta -= 1 - CONFIDENCE
    if way != AUDIT:
        model = "uniform" if way == RATE else "matrix"
    k = probs.shape[1]
    try:
        noise = nacp.noise_from_audit(noisy[rows], true, k=k, model=model, confidence=CONFIDENCE).noise
        if way == MATRIX:
            noise = nacp.MatrixNoise(noise.P)
        with warnings.catch_warnings():
            warnings.simplefilter("error", nacp.NoValidThresholdWarning)
            warnings.simplefilter("ignore", nacp.NoiseModelWarning)  # what it says is what is measured
            cal = nacp.calibrate(probs, noisy, noise=noise, alpha=ALPHA, score=score, delta=delta)
    except (nacp.InputError, nacp.NoValidThresholdWarning):
        return np.inf, True
    return cal.threshold, False


class Scores:
    """A label set with one score; it tells what a threshold does on the points that do not calibrate."""

    def __init__(self, probs, true, noisy, score):
        self.probs, self.true, self.noisy, self.score = probs, true, noisy, score
        self.every = score.scores(probs)
        self.own = self.every[np.arange(len(true)), true]
        self._sorted = np.sort(self.every, axis=None), np.sort(self.own)

    def deal(self, repeat, n):
        """Draw the calibration points; any number of the first ones are a random sample of them."""
        self.points = np.random.default_rng([41, repeat]).permutation(len(self.true))[:n]

    def measure(self, threshold):
        """Return coverage and mean size on the other points."""
        inside = (self.every[self.points], self.own[self.points])
        counts = [
            np.searchsorted(whole, threshold, side="right") - np.count_nonzero(part <= threshold)
            for whole, part in zip(self._sorted, inside, strict=True)
        ]
        left = len(self.true) - len(self.points)
        return counts[1] / left, counts[0] / left

    def found(self, repeat, with_audit):
        """Yield (m, method, threshold, refused) for one draw of calibration points."""
        self.deal(repeat, N)
        probs, true, noisy = self.probs[self.points], self.true[self.points], self.noisy[self.points]
        options = {"alpha": ALPHA, "score": self.score}
        for name, labels in ((NOISY, noisy), (ORACLE, true)):
            cal = nacp.calibrate(probs, labels, noise=None, guarantee="split", **options)
            yield 0, name, cal.threshold, False
        for m in CHECKED:
            yield from self.compared(m, repeat)
            rows = np.arange(m)
            for way in (AUDIT, RATE, MATRIX) if with_audit else ():
                yield m, way, *audited(way, probs, noisy, rows, true[rows], self.score)

    def compared(self, m, repeat):
        """Yield what m checked labels give: alone, beside the noisy ones, and chosen."""
        probs, true, noisy = self.probs[self.points], self.true[self.points], self.noisy[self.points]
        options = {"alpha": ALPHA, "score": self.score}
        yield m, BINOMIAL, binomial(self.own[self.points[:m]]), False
        rows = np.arange(m)
        cal = nacp.calibrate(
            probs, noisy, clean=(rows, true[rows]), delta=DELTA, random_state=repeat, **options
        )
        yield m, CLEAN, cal.threshold, cal.obstacle is not None
        plan = nacp.choose_audit(probs, noisy, budget=m, random_state=repeat, **options)
        cal = nacp.calibrate(
            probs, noisy, clean=(plan.rows, true[plan.rows]), audit=plan, delta=DELTA, **options
        )
        yield m, CHOSEN, cal.threshold, cal.obstacle is not None

    def found_with_many(self, repeat):
        """Yield the same for many checked labels of more points."""
        self.deal(repeat, min(MANY_N, len(self.true) - LEFT))
        yield from self.compared(MANY, repeat)


def measured(scores, repeats, audits, many):
    """Return for each m and method what came of the repeats: coverage, size, refused."""
    found = {}
    for repeat in range(max(repeats, many)):
        for m, name, threshold, refused in scores.found(repeat, repeat < audits) if repeat < repeats else ():
            found.setdefault((m, name), []).append((*scores.measure(threshold), refused))
        for m, name, threshold, refused in scores.found_with_many(repeat) if repeat < many else ():
            found.setdefault((m, name), []).append((*scores.measure(threshold), refused))
    return found


def ratio_of(found, m, name):
    """Return a method's mean excess over that of the binomial test, and its standard error.

    The mean of the binomial test is known. How far its runs happen to be from it is taken off those of
    `clean=` and `choose_audit`, as far as these go along with it.
    """
    base, excess = binomial_excess(m, ALPHA, DELTA), np.array(found[m, name])[:, 0] - (1 - ALPHA)
    luck = np.array(found[m, BINOMIAL])[: len(excess), 0] - (1 - ALPHA) - base
    if name in (CLEAN, CHOSEN) and np.ptp(luck) > 0:
        excess = excess - np.cov(excess, luck)[0, 1] / luck.var(ddof=1) * luck
    return excess.mean() / base, excess.std(ddof=1) / math.sqrt(len(excess)) / base


def rows_of(found, points):
    """Return the rows of a table."""
    for (m, name), results in sorted(found.items(), key=lambda item: item[0][0]):
        coverage, size, refused = np.array(results).T
        error = math.sqrt(ALPHA * (1 - ALPHA) / (points - N if m != MANY else max(points - MANY_N, LEFT)))
        ratio = worth = ""
        if m:
            part, doubt = ratio_of(found, m, name)
            ratio = f"{part:.2f} ± {doubt:.2f}"
            worth = f"{part**-2:.1f}" if name in (CLEAN, CHOSEN) else ""
        yield (
            f"{m:,}" if m else "–", name, len(coverage), f"{coverage.mean():.4f}", f"{size.mean():.3f}",
            f"{np.mean(coverage < 1 - ALPHA - 2 * error):.2f}", ratio, worth, int(refused.sum()) or "",
        )  # fmt: skip


def short(sections):
    """Return a table of the ratios of all label sets: random audit, chosen one."""
    every = sorted({m for _, found in sections for m, name in found if name == CHOSEN})
    lines = ["| labels | " + " | ".join(f"m = {m:,}" for m in every) + " |", "|---" * (len(every) + 1) + "|"]
    for title, found in sections:
        cells = []
        for m in every:
            ratios = [ratio_of(found, m, name) for name in (CLEAN, CHOSEN)]
            cells.append(", ".join(f"{part:.2f} ± {doubt:.2f}" for part, doubt in ratios))
        lines.append("| " + " | ".join([title, *cells]) + " |")
    return SHORT_TEXT + "\n".join(lines) + "\n"


SHORT_TEXT = """
## In short

Excess / binomial: `clean=`, `choose_audit`. Where the former is 1.00 ± 0.00 it is the binomial test: noisy
labels would not help. Where m = 5,000 leaves too few doubtful points to choose from (CIFAR-10H, the last
twin), the plan is a random audit, and `choose_audit` the binomial test on other labels: by theory its ratio
is 1. Label sets with the same probabilities share their draws, and so their luck.

"""


def table(rows):
    header = ("m", "method", "runs", "coverage", "size", "short", "excess / binomial", "worth", "refused")
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def head(repeats, audits, many):
    return f"""# Checked labels, measured

Made by `python benchmarks/checked.py --repeats {repeats} --audits {audits} --many {many}` (part of
`make guarantees`) with NACP_BENCHMARK_DATA set; see docs/guarantees.md, A1 and A2. The labels
were given by people, but for the two twins, which are simulated.

{repeats} draws of {N:,} calibration points, the first m of which are checked; all other points of a file
are the test. m = {MANY:,} are checked in {many} draws of {MANY_N:,} points (CIFAR-10H: 7,500, so that
{LEFT:,} are left to test). α = {ALPHA:g}. Each promise may fail with probability {DELTA:g}.

- *Checked alone, binomial*: the r-th smallest score of the m checked labels, r the least with
  P(Bin(m, 0.9) ≥ r) ≤ 0.1.
- *`clean=`, "pac"*: `calibrate(probs, noisy, clean=(rows, labels), delta=0.1)`; no word about the noise.
- *`choose_audit`*: m other labels, which `nacp.choose_audit(probs, noisy, budget=m)` chose, and
  `calibrate(..., audit=plan)`.
- *Audit*: "pac" with `noise_from_audit` of the same m labels; only {audits} runs, as they are slow. *As it
  comes*: a matrix with its radius. *One rate*: `model="uniform"`, with its interval. Both leave half of the
  {DELTA:g} to "pac". *Matrix taken as exact*: `model="matrix"` without its radius.
- *Noisy labels as they are* and *oracle*: split conformal prediction. It promises a mean, so that some runs
  are short is no failure.

Short: the share of runs whose coverage on the test points is below 0.9 by more than two standard errors of
that coverage. Excess / binomial: mean coverage less 0.9, over that of the binomial test, and its standard
error. The mean of the binomial test is known: (m − a)/(m + 1) − 0.9, if a misses are allowed. How far its own
runs happen to be from it is seen in its row, and is taken off those of `clean=` and `choose_audit`, as far as
these go along with it. Worth: how many labels, checked at random and used alone, one of these is worth; one
over the square of that ratio. Refused: in how many runs there was no threshold, or no noise model; the sets
then hold all classes.
"""


def section(name, probs, true, noisy, score, repeats, audits, many):
    """Measure one label set with one score; return its title, what was found, and the section of the page."""
    warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
    start = time.perf_counter()
    found = measured(Scores(probs, true, noisy, score), repeats, audits, many)
    title = f"{name} ({np.mean(noisy != true):.0%} wrong), {score.name.upper()}"
    print(f"  {title}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return title, found, f"\n## {title}\n\n{table(rows_of(found, len(true)))}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("NACP_BENCHMARK_DATA"), help="the folder of files")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--audits", type=int, default=30, help="repeats with a noise model from the audit")
    parser.add_argument("--many", type=int, default=30, help=f"repeats with {MANY:,} checked labels")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.data is None:
        print("  neither --data nor NACP_BENCHMARK_DATA is set: nothing is measured", file=sys.stderr)
        return
    runs = options.repeats, min(options.audits, options.repeats), options.many
    with ProcessPoolExecutor(options.workers) as pool:
        sections = [
            pool.submit(section, *data, score, *runs)
            for data in label_sets(Path(options.data))
            for score in (nacp.HPS(), nacp.APS())
        ]
        results = [each.result() for each in sections]
        found = "".join(each[2] for each in results)
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(head(*runs) + short([each[:2] for each in results]) + found, encoding="utf-8")


if __name__ == "__main__":
    main()
