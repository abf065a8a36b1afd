"""``make estimation``: do the intervals hold, what does a wrong assumption do, and how far does it carry on
human noise? Writes results/estimation.md.

Real labels are read from the folder named by NACP_BENCHMARK_DATA; their tables are left out where that is not
set. Confident learning needs nacp[cleanlab]; its rows say so if that is missing.
"""

import argparse
import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np

import nacp
from nacp.coverage.curve import Curve
from nacp.coverage.tally import Sample
from nacp.paper import twins

OUT = Path(__file__).parent.parent / "results" / "estimation.md"
HEAD = "# Noise estimation, measured\n\nMade by `make estimation`; see docs/estimation.md.\n"
ALPHA = 0.1


def log(line):
    print("  " + line, file=sys.stderr, flush=True)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


# Intervals


# A classifier that is not as assumed


# Human noise


def human():
    """Yield (name, probs, clean, noisy, labels of annotators or None) of the real label sets."""
    folder = Path(os.environ["NACP_BENCHMARK_DATA"])
    with np.load(folder / "cifar10.npz") as data:
        probs, clean, counts = data["probs"], data["labels"].astype(int), data["human_counts"].astype(int)
    labels = _three(counts, np.random.default_rng(17))
    yield "CIFAR-10H", probs, clean, labels[:, 0], labels
    with np.load(folder / "cifar10n.npz") as data:
        probs, clean = data["probs"], data["labels"].astype(int)
        labels = np.stack([data[f"noisy_labels_random{i}"].astype(int) for i in (1, 2, 3)], axis=1)
        votes = {kind: data[f"noisy_labels_{kind}"].astype(int) for kind in ("aggre", "worse")}
    for i in range(3):
        yield f"CIFAR-10N random{i + 1}", probs, clean, labels[:, i], labels
    for kind, noisy in votes.items():
        yield f"CIFAR-10N {kind}", probs, clean, noisy, None
    with np.load(folder / "cifar100n.npz") as data:
        yield "CIFAR-100N", data["probs"], data["labels"].astype(int), data["noisy_labels"].astype(int), None


def _three(counts, rng):
    """Three of an image's annotators, in a random order; the first one's label is the noisy one."""
    drawn = rng.multivariate_hypergeometric
    return np.array([rng.permutation(np.repeat(np.arange(10), drawn(row, 3))) for row in counts])


def over_draws(runs):
    """What three annotators of each image tell, over draws of 5,000 images and, of 10H, of annotators."""
    folder = Path(os.environ["NACP_BENCHMARK_DATA"])
    with np.load(folder / "cifar10.npz") as data:
        probs, clean, counts = data["probs"], data["labels"].astype(int), data["human_counts"].astype(int)
    sets = {"CIFAR-10H": (probs, clean, lambda rng: _three(counts, rng))}
    with np.load(folder / "cifar10n.npz") as data:
        given = np.stack([data[f"noisy_labels_random{i}"].astype(int) for i in (1, 2, 3)], axis=1)
        sets["CIFAR-10N random"] = (
            data["probs"], data["labels"].astype(int), lambda rng: rng.permuted(given, axis=1)
        )  # fmt: skip
    rows = []
    for name, (probs, clean, labelled) in sets.items():
        found = {way: [] for way in estimators(True) if way.startswith("annotators")}
        for run in range(runs):
            rng = np.random.default_rng([43, run])
            labels, order = labelled(rng), rng.permutation(len(clean))
            c, t = order[:5000], order[5000:]
            for way, each in found.items():
                estimate = estimators(True)[way](probs[c], None, labels[c])
                told = estimate.wrong - np.mean(labels[c] != clean[c, None])
                for guarantee in ("pac", "expected"):
                    # The interval has half of the probability of failure; "expected" leaves it out.
                    noise = estimate if guarantee == "pac" else _without_doubt(estimate.noise, 10)
                    cal = nacp.calibrate(probs[c], labels[c, 0], noise=noise, guarantee=guarantee)
                    result = nacp.evaluate(cal.predict_set(probs[t]), clean[t])
                    values = estimate.wrong, told, result.coverage, result.mean_size, len(cal.warnings)
                    each.append((guarantee, *values))
        bar = 1 - ALPHA - 2 * math.sqrt(ALPHA * (1 - ALPHA) / len(t))

        def mean(values, form):
            return f"{values.mean():{form}} ± {values.std(ddof=1) / math.sqrt(runs):{form}}"

        for way, each in found.items():
            for guarantee in ("pac", "expected"):
                drawn = np.array([row[1:] for row in each if row[0] == guarantee])
                wrong, told, coverage, size, warned = drawn.T
                short = f"{np.mean(coverage < bar):.0%}" if guarantee == "pac" else ""
                cells = mean(wrong, ".2%"), mean(100 * told, "+.2f").replace("± +", "± ")
                cells += mean(coverage, ".4f"), mean(size, ".3f"), short, f"{warned.mean():.0%}"
                rows.append((name, way, guarantee, *cells))
                log(str(rows[-1]))
    header = ("labels", "noise from", "guarantee", "estimated wrong", "less the truth, in points",
              "mean coverage, target 0.9", "size", "runs that are short", "contradicted")  # fmt: skip
    return table(header, rows) + (
        f"\n\n{runs} draws of 5,000 images to estimate and to calibrate with, three labels of each (of "
        "CIFAR-10H by other annotators in each draw), one of which calibrates; HPS. ± is the standard error "
        "of the mean over draws, which share images. Short: by more than two standard errors of the coverage "
        'on all other images; "pac" may be in 10% of the runs with an interval, which a matrix has not. '
        "Contradicted: runs in which `calibrate` warned of the noise model. "
        "`python benchmarks/estimation.py --only annotators` makes this table in a minute."
    )


def estimators(annotators):
    """The estimators that need no clean label: from rows to an estimate."""
    found = {
        "model": lambda probs, noisy, labels: nacp.noise_from_model(probs, noisy),
        "model, matrix": lambda probs, noisy, labels: nacp.noise_from_model(probs, noisy, model="matrix"),
    }
    if annotators:
        found = {
            "annotators": lambda probs, noisy, labels: nacp.noise_from_annotators(
                labels, k=probs.shape[1], model="uniform"
            ),
            "annotators, matrix": lambda probs, noisy, labels: nacp.noise_from_annotators(
                labels, k=probs.shape[1], model="matrix"
            ),
        } | found
    return found


def attempt(estimate, *data):
    """Return an estimate, or why there is none."""
    try:
        return estimate(*data)
    except (ValueError, ImportError) as error:
        return str(error).split(":")[0].split("(")[0].strip()


def rates():
    """Each estimator's share of wrong labels beside the true one."""
    rows = []
    rng = np.random.default_rng(19)

    def cell(found):
        if isinstance(found, str):
            return f"refused: {found}"
        if found.interval is None:
            return f"{found.wrong:.1%}"
        scale = found.wrong / found.rate if found.rate else 1 - 1 / found.k
        return f"{found.wrong:.1%} ({found.interval[0] * scale:.1%} to {found.interval[1] * scale:.1%})"

    for name, probs, clean, noisy, labels in human():
        k = probs.shape[1]
        some = rng.choice(len(clean), 1000, replace=False)
        ways = estimators(True)
        found = {
            way: cell(attempt(estimate, probs, noisy, labels))
            if labels is not None or not way.startswith("annotators")
            else "votes, not annotators" if "10N" in name else "one label each"
            for way, estimate in ways.items()
        }  # fmt: skip
        audit = nacp.noise_from_audit(noisy[some], clean[some], k=k)
        kind = type(audit.noise).__name__
        rows.append((name, f"{np.mean(noisy != clean):.1%}", f"{cell(audit)}; {kind}", *found.values()))
        log(str(rows[-1]))
    return table(("labels", "wrong in truth", "audit of 1,000", *ways), rows)


RADII = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2)


def end_to_end(splits):
    """Estimate without clean labels, calibrate, and measure on clean labels."""
    rows = []
    for name, probs, clean, noisy, labels in human():
        if name.endswith(("random2", "random3")):
            continue  # as random1
        k, half = probs.shape[1], len(clean) // 2
        orders = [np.random.default_rng([23, s]).permutation(len(clean)) for s in range(splits)]
        firsts = [np.sort(order[:half]) for order in orders]
        seconds = [np.sort(order[half:]) for order in orders]
        setting = _Setting(probs, clean, noisy, firsts, seconds)
        oracle = setting.measure([None] * splits, clean=True)
        ignorant = setting.measure([None] * splits)
        rows.append((name, "oracle (clean labels)", "", f"{oracle[0]:.4f}", f"{oracle[1]:.3f}", "", "", ""))
        rows.append((name, "Noisy-CP", "", f"{ignorant[0]:.4f}", f"{ignorant[1]:.3f}", "0%", "", ""))
        found = {"true matrix (needs clean labels)": [_true_matrix(clean[c], noisy[c], k) for c in firsts]}
        found["audit of 1,000 (clean labels)"] = [
            _audited(noisy[a], clean[a], k) for a in (order[: min(half, 1000)] for order in orders)
        ]
        for way, estimate in estimators(labels is not None).items():
            seen = [None if labels is None else labels[c] for c in firsts]
            found[way] = [
                attempt(estimate, probs[c], noisy[c], own) for c, own in zip(firsts, seen, strict=True)
            ]
        for way, estimates in found.items():
            refused = [estimate for estimate in estimates if isinstance(estimate, str)]
            if refused:
                rows.append((name, way, "", f"refused: {refused[0]}", *[""] * 4))
                continue
            models = [getattr(estimate, "noise", estimate) for estimate in estimates]
            known = [_without_doubt(m, k) for m in models]
            radii = setting.radii(known)
            blurred = [nacp.MatrixNoise(m.matrix(k).dense(), r) for m, r in zip(known, radii, strict=True)]
            said = f"pac, η = {np.mean(radii):.3f}"
            repair = None
            for guarantee, used in (("pac", models), ("expected", known), (said, blurred)):
                coverage, size, error = setting.measure(used, guarantee.split(",")[0])
                removed = (ignorant[1] - size) / (ignorant[1] - oracle[1])
                verdict = "keeps the target" if coverage >= 1 - ALPHA else "within two errors"
                if coverage < 1 - ALPHA - 2 * error:
                    verdict = repair = repair or setting.repair(models)
                rows.append((
                    name, way, guarantee, f"{coverage:.4f} ± {error:.4f}", f"{size:.3f}", f"{removed:.0%}",
                    verdict, f"{np.mean(radii > 0):.0%}",
                ))  # fmt: skip
                log(str(rows[-1]))
    header = ("labels", "noise from", "guarantee", "coverage, target 0.9", "size", "excess removed",
              "η that repairs it", "rejected by diagnose")  # fmt: skip
    return table(header, rows) + (
        f"\n\nMeans of {splits} random halves for calibration, the others for the test; HPS. ± is "
        "sqrt(sd(g)²/n + α(1-α)/n_test) of one of them. Two of these below the target count as broken; then "
        'η is the smallest radius tried with which "pac" reaches the target on the first split, and the size '
        'of its sets. The rows "pac, η" take the radius from `nacp.compatible_radius`, which needs no clean '
        'label; the rows "expected" leave doubt out. The excess is the size that Noisy-CP has beyond the '
        "oracle's; more than 100% of it removed "
        "goes with too little coverage."
    )


def fewer_points(runs):
    """What a matrix with the radius that the data show does with 5,000 points, not 25,000."""
    rows = []
    for name, probs, clean, noisy, _ in human():
        if "10N" not in name or name.endswith(("random2", "random3")):
            continue
        k, found = probs.shape[1], []
        for run in range(runs):
            order = np.random.default_rng([37, run]).permutation(len(clean))
            c, t, checked = order[:5000], order[5000:], order[:1000]
            audit = nacp.noise_from_audit(noisy[checked], clean[checked], k=k, model="matrix")
            model = nacp.MatrixNoise(audit.noise.P)
            cal = nacp.calibrate(probs[c], noisy[c], noise=model, alpha=ALPHA, guarantee="none")
            radius = nacp.compatible_radius(cal, probs[c], noisy[c])
            cal = nacp.calibrate(probs[c], noisy[c], noise=nacp.MatrixNoise(model.P, radius), delta=0.1)
            result = nacp.evaluate(cal.predict_set(probs[t]), clean[t])
            found.append((result.coverage, result.mean_size, radius))
        coverage, size, radius = np.transpose(found)
        bar = 1 - ALPHA - 2 * math.sqrt(ALPHA * (1 - ALPHA) / len(t))
        error = np.std(coverage) / math.sqrt(runs)
        rows.append((name, f"{radius.mean():.3f}", f"{coverage.mean():.4f} ± {error:.4f}",
                     f"{size.mean():.3f}", f"{np.mean(coverage < bar):.0%}"))  # fmt: skip
        log(str(rows[-1]))
    header = ("labels", "η", "mean coverage, target 0.9", "size", "runs that are short")
    return table(header, rows) + (
        f'\n\n{runs} draws of 5,000 points, 1,000 of them audited; HPS, "pac" with δ = 0.1, the matrix of '
        "the audit with the radius of `nacp.compatible_radius`. Short: by more than two standard errors of "
        "the coverage on all other points. δ allows for 10% of the runs."
    )


def uniform_audit(runs):
    """What an audit of 300 labels is worth as an interval of the rate, and as checked labels."""
    rows = []
    for twin in ("cifar100", "imagenet-resnet18"):
        probs, labels = twins.simulate(twin, n=20_000, random_state=4)
        k = probs.shape[1]
        found = {"rate known": [], "audit, interval of the rate": [], "audit as `clean=`": []}
        found["audit alone, `labels=None, clean=`"] = []
        for run in range(runs):
            rng = np.random.default_rng([41, run])
            order = rng.permutation(len(labels))
            c, t = order[:4000], order[4000:]
            noisy = nacp.UniformNoise(0.2).sample(labels[c], k, rng)
            checked = np.arange(300), labels[c[:300]]
            # Both ways may fail with probability 0.1: the interval and "pac" have half of it each.
            audit = nacp.noise_from_audit(noisy[:300], checked[1], k=k, model="uniform", confidence=0.95)
            made = (
                nacp.calibrate(probs[c], noisy, noise=0.2, delta=0.1),
                nacp.calibrate(probs[c], noisy, noise=audit, delta=0.05),
                nacp.calibrate(probs[c], noisy, clean=checked, delta=0.1),
                nacp.calibrate(probs[c], None, clean=checked, delta=0.1),
            )
            for cal, each in zip(made, found.values(), strict=True):
                result = nacp.evaluate(cal.predict_set(probs[t]), labels[t])
                each.append((result.coverage, result.mean_size))
        for way, each in found.items():
            coverage, size = np.mean(each, axis=0)
            rows.append((f"{twin}, k = {k}", way, f"{coverage:.4f}", f"{size:.2f}"))
            log(str(rows[-1]))
    return table(("twin", "what is used", "mean coverage, target 0.9", "labels per set"), rows) + (
        f'\n\n{runs} draws of 4,000 points with uniform noise of rate 0.2, 300 of them audited; HPS, "pac", '
        "all in all with probability 0.1 of failure."
    )


def _without_doubt(model, k):
    """Return the best single model."""
    if isinstance(model, nacp.UniformNoise):
        return nacp.UniformNoise(model.rate)
    return nacp.MatrixNoise(model.matrix(k).dense())


def _audited(noisy, clean, k):
    return attempt(lambda: nacp.noise_from_audit(noisy, clean, k=k))


def deviation(cal, probs, labels):
    """Return the standard deviation of one point's share in the estimate, at the threshold."""
    sample = Sample.of(cal.open_rows(probs), labels, cal.score)
    curve = Curve.of(sample, cal.noise)
    return curve.deviation(sample, int(np.searchsorted(curve.spec.thresholds, cal.native_threshold)))


class _Setting:
    """One label set, split several times."""

    def __init__(self, probs, clean, noisy, firsts, seconds):
        self.probs, self.clean, self.noisy = probs, clean, noisy
        self.firsts, self.seconds = firsts, seconds

    def calibrated(self, models, guarantee=None, clean=False):
        """Yield calibrations, with the points that they were made of."""
        labels = self.clean if clean else self.noisy
        for c, model in zip(self.firsts, models, strict=False):
            points = self.probs[c], labels[c]
            yield nacp.calibrate(*points, noise=model, alpha=ALPHA, guarantee=guarantee), points

    def measure(self, models, guarantee=None, clean=False):
        """Return mean coverage and size on clean labels, and the standard error of one coverage."""
        found = []
        for (cal, points), t in zip(self.calibrated(models, guarantee, clean), self.seconds, strict=False):
            result = nacp.evaluate(cal.predict_set(self.probs[t]), self.clean[t])
            error = math.sqrt(deviation(cal, *points) ** 2 / cal.n + ALPHA * (1 - ALPHA) / len(t))
            found.append((result.coverage, result.mean_size, error))
        return np.mean(found, axis=0)

    def radii(self, models):
        """Return the least radii that `diagnose` does not reject; 0 where it rejects nothing."""
        made = self.calibrated(models, "none")
        return np.array([nacp.compatible_radius(cal, *points) for cal, points in made])

    def repair(self, models):
        """Return the smallest radius that brings coverage back, on the first split."""
        dense = [model.matrix(self.probs.shape[1]).dense() for model in models[:1]]
        for radius in RADII:
            coverage, size, _ = self.measure([nacp.MatrixNoise(matrix, radius) for matrix in dense], "pac")
            if coverage >= 1 - ALPHA:
                return f"{radius} (size {size:.3f})"
        return f"more than {RADII[-1]}"


def _true_matrix(clean, noisy, k):
    counts = np.eye(k) * 1e-9
    np.add.at(counts, (clean, noisy), 1)
    return nacp.MatrixNoise(counts / counts.sum(axis=1, keepdims=True))


# Diagnostics


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of runs")
    names = ("uniform-audit", "rates", "annotators", "end-to-end", "fewer-points")
    parser.add_argument("--only", choices=names, nargs="+")
    options = parser.parse_args()
    for told in (nacp.NoValidThresholdWarning, nacp.NoiseModelWarning):
        warnings.simplefilter("ignore", told)

    def runs(number):
        return max(2, int(number * options.scale))

    parts = {
        "uniform-audit": ("An audit where noise is uniform", lambda: uniform_audit(runs(20))),
        "rates": ("Human noise: the share of wrong labels", rates),
        "annotators": ("Human noise: three annotators, over draws", lambda: over_draws(runs(20))),
        "end-to-end": ("Human noise, end to end", lambda: end_to_end(runs(3))),
        "fewer-points": ("Human noise with 5,000 points", lambda: fewer_points(runs(20))),
    }
    order = [title for title, _ in parts.values()]
    if "NACP_BENCHMARK_DATA" not in os.environ:
        log("NACP_BENCHMARK_DATA is not set: the tables on human noise are left out")
        for name in ("rates", "annotators", "end-to-end", "fewer-points"):
            del parts[name]
    found = _sections(OUT.read_text()) if OUT.exists() else {}
    for name, (title, make) in parts.items():
        if options.only and name not in options.only:
            continue
        log(f"{title} ...")
        found[title] = make()
        sections = "".join(f"\n## {each}\n\n{found[each]}\n" for each in order if each in found)
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(f"{HEAD}{sections}")
    print(OUT.read_text())


def _sections(text):
    """Return the sections of an earlier run, by title: `--only` leaves the others as they are."""
    return {
        title: body.strip() for title, _, body in (part.partition("\n") for part in text.split("\n## ")[1:])
    }


if __name__ == "__main__":
    main()
