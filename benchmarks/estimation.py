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
from guarantees import pair_flips, random_noise

import nacp
from nacp.coverage.curve import Curve
from nacp.coverage.tally import Sample
from nacp.estimation.audit import row_radii
from nacp.estimation.model import best_rate, label_log_probs
from nacp.paper import twins
from nacp.points import open_rows

OUT = Path(__file__).parent.parent / "results" / "estimation.md"
HEAD = "# Noise estimation, measured\n\nMade by `make estimation`; see docs/estimation.md.\n"
ALPHA = 0.1
GROUPS = [0] * 5 + [1] * 3 + [2] * 2


def log(line):
    print("  " + line, file=sys.stderr, flush=True)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def calibrated(n, k, rng, concentration):
    """A classifier that is calibrated by construction: labels are drawn from its probabilities."""
    probs = rng.dirichlet(np.full(k, concentration), size=n)
    return probs, np.minimum((probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), k - 1)


def tempered(probs, temperature):
    """Probabilities that need this temperature to be calibrated again: above 1 is over-confident."""
    logs = np.log(np.maximum(probs, 1e-300)) * temperature
    hot = np.exp(logs - logs.max(axis=1, keepdims=True))
    return hot / hot.sum(axis=1, keepdims=True)


# Intervals


def audited(noise, k, n, model, groups, rng):
    clean = rng.integers(k, size=n)
    return nacp.noise_from_audit(noise.sample(clean, k, rng), clean, k=k, model=model, groups=groups)


def annotated(rate, k, n, annotators, missing, rng):
    true = rng.integers(k, size=n)
    labels = np.stack([nacp.UniformNoise(rate).sample(true, k, rng) for _ in range(annotators)], axis=1)
    labels[rng.random(labels.shape) < missing] = -1
    return nacp.noise_from_annotators(labels, k=k, model="uniform")


def modelled(rate, k, n, temperature, rng):
    probs, true = calibrated(n, k, rng, 1 / k)
    noisy = nacp.UniformNoise(rate).sample(true, k, rng)
    return nacp.noise_from_model(tempered(probs, temperature), noisy)


def interval_cases():
    """(name, true rate, kind, how to estimate)."""
    for n, k, rate in ((500, 10, 0.2), (1000, 100, 0.1), (1000, 100, 0.4)):
        noise = nacp.UniformNoise(rate)
        yield f"audit, uniform ε = {rate}, n = {n}, k = {k}", rate, "exact", (
            lambda rng, a=(noise, k, n, "uniform", None): audited(*a, rng)
        )  # fmt: skip
    yield (
        "audit, groups of 5, 3 and 2, ε = 0.3, n = 500",
        0.3,
        "exact",
        (lambda rng: audited(nacp.GroupNoise(GROUPS, 0.3), 10, 500, "groups", GROUPS, rng)),
    )
    for n, annotators, missing, rate in ((1000, 2, 0.0, 0.2), (1000, 3, 0.0, 0.2), (1000, 5, 0.3, 0.4)):
        yield f"{annotators} annotators, {missing:.0%} missing, ε = {rate}, n = {n}, k = 10", rate, "exact", (
            lambda rng, a=(rate, 10, n, annotators, missing): annotated(*a, rng)
        )  # fmt: skip
    for n, k, rate, temperature in ((1000, 10, 0.2, 1.0), (1000, 100, 0.2, 1.0), (1000, 10, 0.4, 1.5)):
        yield f"model, ε = {rate}, n = {n}, k = {k}, over-confident by {temperature}", rate, "likelihood", (
            lambda rng, a=(rate, k, n, temperature): modelled(*a, rng)
        )  # fmt: skip


def intervals(runs):
    """Coverage of nominal 95% intervals."""
    rows = []
    for i, (name, rate, kind, estimate) in enumerate(interval_cases()):
        rng = np.random.default_rng([7, i])
        ends = np.array([estimate(rng).interval for _ in range(runs)])
        inside = np.mean((ends[:, 0] <= rate) & (rate <= ends[:, 1]))
        error = math.sqrt(inside * (1 - inside) / runs)
        wanted = "94 to 97.5%" if kind == "exact" else "at least 93%"
        rows.append((name, kind, f"{inside:.2%} ± {error:.2%}", wanted, f"{np.diff(ends).mean():.3f}"))
        log(str(rows[-1]))
    rows.append(radius_row(runs))
    return table(("data", "interval", "coverage of the nominal 95%", "asked", "mean width"), rows) + (
        f"\n\n{runs:,} simulated data sets each. The radius is a union bound over rows and cells, so it "
        "is conservative."
    )


def radius_row(runs):
    rng = np.random.default_rng(11)
    matrix = random_noise(10).P
    fails, radii = 0, []
    for _ in range(runs):
        clean = rng.integers(10, size=5000)
        counts = np.zeros((10, 10))
        np.add.at(counts, (clean, nacp.MatrixNoise(matrix).sample(clean, 10, rng)), 1)
        found = row_radii(counts, 0.05 / 10)
        away = np.abs(counts / counts.sum(axis=1, keepdims=True) - matrix).sum(axis=1) / 2
        fails += bool(np.any(away > found))
        radii.append(found.max())
    inside = 1 - fails / runs
    name = "audit, matrix, n = 5000, k = 10: all rows within the radius"
    return name, "bound", f"{inside:.2%}", "at least 95%", f"radius {np.mean(radii):.3f}"


# A classifier that is not as assumed


def bias(runs):
    """The likelihood on classifiers that are over- or under-confident."""
    rows = []
    rate, k, n = 0.2, 100, 4000
    cases = [(f"temperature {t:g}", lambda p, rng, t=t: tempered(p, t)) for t in (0.5, 0.7, 1.0, 1.4, 2.0)]
    cases.append(("half of the points 0.5, half 2", lambda p, rng: _mixed(p, rng)))
    for i, (name, spoil) in enumerate(cases):
        rng = np.random.default_rng([13, i])
        found, ends, plain, refused = [], [], [], 0
        for _ in range(runs):
            probs, true = calibrated(n, k, rng, 1 / k)
            noisy = nacp.UniformNoise(rate).sample(true, k, rng)
            given = spoil(probs, rng)
            own = np.exp(label_log_probs(open_rows(given), noisy, np.ones(1)))[0]
            plain.append(best_rate(own, k))
            try:
                estimate = nacp.noise_from_model(given, noisy)
            except ValueError:
                refused += 1
                continue
            found.append(estimate.rate)
            ends.append(estimate.interval)
        inside = np.mean([low <= rate <= high for low, high in ends])
        rows.append((name, f"{np.mean(found) - rate:+.4f}", f"{inside:.0%}", f"{refused / runs:.0%}",
                     f"{np.mean(plain) - rate:+.4f}"))  # fmt: skip
        log(str(rows[-1]))
    for name, k in (("cifar10", 10), ("cifar100", 100), ("imagenet-resnet18", 1000)):
        probs, true = twins.simulate(name, n=10_000, random_state=2)
        estimate = nacp.noise_from_model(probs, nacp.UniformNoise(rate).sample(true, k, 0))
        low, high = estimate.interval
        rows.append((f"twin {name}, one draw, {low:.3f} to {high:.3f}", f"{estimate.rate - rate:+.4f}",
                     "in" if low <= rate <= high else "out", "", ""))  # fmt: skip
    header = ("the classifier's probabilities take", "bias of the rate", "interval covers", "refused",
              "bias without a temperature")  # fmt: skip
    return table(header, rows) + (
        f"\n\nTrue rate {rate}, n = {n}, k = 100 but for the twins; {runs} data sets each. Above 1 is "
        "over-confident."
    )


def _mixed(probs, rng):
    sharp = rng.random(len(probs)) < 0.5
    return np.where(sharp[:, None], tempered(probs, 2.0), tempered(probs, 0.5))


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
    return curve.deviations(sample, np.searchsorted(curve.spec.thresholds, [cal.native_threshold]))[0]


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


def power(runs):
    """How often `diagnose` rejects right and wrong models."""
    uniform = nacp.UniformNoise
    turn = nacp.MatrixNoise(0.8 * np.eye(100) + 0.2 * np.roll(np.eye(100), 1, axis=1))
    matrix = random_noise(100)
    cases = [
        ("right: uniform .2", uniform(0.2), uniform(0.2)),
        ("right: pair flips .2", pair_flips(100), pair_flips(100)),
        ("right: random matrix", matrix, matrix),
        ("uniform .4 claimed on pair flips .2", pair_flips(100), uniform(0.4)),
        ("random matrix, transposed", matrix, _transposed(matrix)),
        ("i taken for i + 1 with .2, transposed", turn, _transposed(turn)),
        ("uniform .22 claimed on uniform .2", uniform(0.2), uniform(0.22)),
        ("uniform .25 claimed on uniform .2", uniform(0.2), uniform(0.25)),
        ("uniform .2 claimed on pair flips .2", pair_flips(100), uniform(0.2)),
        ("uniform .15 claimed on uniform .2", uniform(0.2), uniform(0.15)),
    ]
    probs, labels = twins.simulate("cifar100", n=60_000, random_state=5)
    rows = []
    for i, (name, true, claimed) in enumerate(cases):
        rng = np.random.default_rng([29, i])
        cells = [name]
        for n in (1000, 5000):
            rejected = 0
            for _ in range(runs):
                some = np.sort(rng.choice(len(labels), n, replace=False))
                noisy = true.sample(labels[some], 100, rng)
                cal = nacp.calibrate(probs[some], noisy, noise=claimed, guarantee="none")
                rejected += nacp.diagnose(cal, probs[some], noisy).rejected
            cells.append(f"{rejected / runs:.3f}")
        rows.append(cells)
        log(str(cells))
    return table(("model", "n = 1,000", "n = 5,000"), rows) + (
        f"\n\nShare of {runs} data sets (twin of CIFAR-100, k = 100) in which the model is rejected at level "
        "5%. An understated rate is not seen. Of uniform noise it costs size, not coverage."
    )


def null_level(runs):
    """The worst case: a classifier so good that almost all shares are 0 in truth."""
    rows = []
    cases = {
        "uniform .3": nacp.UniformNoise(0.3),
        "pair flips .2": pair_flips(10),
        "random matrix": random_noise(10),
    }
    for i, (name, noise) in enumerate(cases.items()):
        rng = np.random.default_rng([31, i])
        cells = [name]
        for n in (300, 1000):
            rejected = 0
            for _ in range(runs):
                true = rng.integers(10, size=n)
                probs = np.eye(10)[true] + 0.01 * rng.random((n, 10))
                probs /= probs.sum(axis=1, keepdims=True)
                noisy = noise.sample(true, 10, rng)
                cal = nacp.calibrate(probs, noisy, noise=noise, guarantee="none")
                rejected += nacp.diagnose(cal, probs, noisy).rejected
            cells.append(f"{rejected / runs:.4f}")
        rows.append(cells)
        log(str(cells))
    error = math.sqrt(0.05 * 0.95 / runs)
    return table(("right model, level 5%", "n = 300", "n = 1,000"), rows) + (
        f"\n\n{runs:,} data sets each, k = 10, a nearly perfect classifier: the shares that are tested are "
        f"almost 0 in truth, so this is the worst case. Standard error at 5%: {error:.4f}."
    )


def _transposed(noise):
    return nacp.MatrixNoise(noise.P.T / noise.P.T.sum(axis=1, keepdims=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of runs")
    names = ("intervals", "bias", "level", "power", "uniform-audit", "rates", "annotators",
             "end-to-end", "fewer-points")  # fmt: skip
    parser.add_argument("--only", choices=names, nargs="+")
    options = parser.parse_args()
    for told in (nacp.NoValidThresholdWarning, nacp.NoiseModelWarning):
        warnings.simplefilter("ignore", told)

    def runs(number):
        return max(2, int(number * options.scale))

    parts = {
        "intervals": ("Intervals", lambda: intervals(runs(2000))),
        "bias": ("Bias of noise_from_model", lambda: bias(runs(100))),
        "level": ("Level of diagnose", lambda: null_level(runs(1000))),
        "power": ("Power of diagnose", lambda: power(runs(100))),
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
