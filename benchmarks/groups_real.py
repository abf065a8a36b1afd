"""Coverage of each group on real classifiers: one threshold for all, one for each group, ACNL, clean labels.

Run ``python benchmarks/groups_real.py --data FOLDER``, or set NACP_BENCHMARK_DATA to that folder. It must
hold cifar10n.npz, cifar100.npz, tinyimagenet.npz and imagenet.npz; nothing is written where it is not named.
Writes results/groups.md.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path

import numpy as np

import nacp

OUT = Path(__file__).parent.parent / "results" / "groups.md"
ALPHA, DELTA = 0.1, 0.05
NOISE = nacp.UniformNoise(0.2)
SUPERCLASSES = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food containers": "bottle bowl can cup plate",
    "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
    "household electrical devices": "clock keyboard lamp telephone television",
    "household furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large man-made outdoor things": "bridge castle house road skyscraper",
    "large natural outdoor scenes": "cloud forest mountain plain sea",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "non-insect invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}
# Classes of ImageNet stand in the order of WordNet: where each kind begins.
KINDS = ((0, "other animals"), (151, "dogs"), (269, "other animals"), (398, "things"))
CLUSTERS = 5
MARGINAL, OURS, PLAIN = 'one threshold, "pac"', 'by group, "pac"', 'by group, "none"'
ACNL, ORACLE = "ACNL by class", "clean labels, split by group"


def superclasses(names):
    """Return the superclass of each class of CIFAR-100."""
    found = {each: kind for kind, several in SUPERCLASSES.items() for each in several.split()}
    return {i: found[name] for i, name in enumerate(names)}


def kinds(k):
    """Return the kind of each class of ImageNet."""
    return {i: next(kind for start, kind in reversed(KINDS) if i >= start) for i in range(k)}


def experiments(folder):
    """Yield title, probabilities, true labels, groups (None: clusters), calibration and cluster points."""
    with np.load(folder / "cifar10n.npz") as data:
        by_class = {i: str(name) for i, name in enumerate(data["class_names"])}
        yield "CIFAR-10, its 10 classes", data["probs"], data["labels"].astype(int), by_class, 10_000, 0
    with np.load(folder / "cifar100.npz") as data:
        groups = superclasses(data["class_names"].tolist())
        yield "CIFAR-100, its 20 superclasses", data["probs"], data["labels"].astype(int), groups, 7500, 0
    with np.load(folder / "tinyimagenet.npz") as data:
        title = f"Tiny-ImageNet, {CLUSTERS} clusters of its 200 classes"
        yield title, data["probs"], data["labels"].astype(int), None, 4000, 3000
    with np.load(folder / "imagenet.npz") as data:
        labels = data["labels"].astype(int)
        yield "ImageNet, three kinds of its 1,000 classes", data["probs"], labels, kinds(1000), 2500, 0


def calibrated(probs, noisy, true, groups):
    """Return a calibration for each method."""
    options = {"noise": NOISE, "alpha": ALPHA}
    grouped = {"groups": groups, "small": "all"}
    return {
        MARGINAL: nacp.calibrate(probs, noisy, guarantee="pac", delta=DELTA, **options),
        OURS: nacp.calibrate(probs, noisy, guarantee="pac", delta=DELTA, **options, **grouped),
        PLAIN: nacp.calibrate(probs, noisy, guarantee="none", **options, **grouped),
        ACNL: nacp.calibrate(probs, noisy, guarantee="acnl", by="class", small="all", **options),
        ORACLE: nacp.calibrate(probs, true, noise=None, alpha=ALPHA, guarantee="split", **grouped),
    }


def one_draw(probs, labels, groups, n, aside, repeat):
    """Return for each method the coverage of each group, the mean size, and the shares of groups whose sets
    hold all labels, and which are short; and how many points were tested.
    """
    k, rng = probs.shape[1], np.random.default_rng([71, repeat])
    noisy = NOISE.sample(labels, k, rng)
    first, cal, test = np.split(rng.permutation(len(labels)), [aside, aside + n])
    if groups is None:
        groups = nacp.cluster_classes(probs[first], noisy[first], noise=NOISE, clusters=CLUSTERS)
    found = {}
    for name, each in calibrated(probs[cal], noisy[cal], labels[cal], groups).items():
        measured = nacp.evaluate(each.predict_set(probs[test]), labels[test], groups=groups)
        full = 0.0
        if isinstance(each, nacp.GroupedCalibration):
            full = len(each.infinite) / len(each.names)
        error = np.sqrt(ALPHA * (1 - ALPHA) / np.maximum(measured.groups.count, 1))
        short = measured.groups.coverage < 1 - ALPHA - 2 * error
        found[name] = measured.groups.coverage, measured.mean_size, full, short.mean()
    return found, len(test)


def told(values, digits):
    """Return a mean over draws with its standard error."""
    values = np.array(values)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


def rows_of(draws, fixed):
    """Return the lines of a table, one for each method."""
    lines = []
    for name in draws[0]:
        # Clusters differ from draw to draw: their worst is then the worst of each draw.
        coverage = [draw[name][0] for draw in draws]
        least = told([np.nanmin(each) for each in coverage], 3)
        same = "–"
        if fixed:
            table = np.array(coverage)
            same = told(table[:, int(np.nanargmin(np.nanmean(table, axis=0)))], 3)
        sizes = told([draw[name][1] for draw in draws], 2)
        full, short = (100 * np.mean([draw[name][i] for draw in draws]) for i in (2, 3))
        lines.append(f"| {name} | {same} | {least} | {short:.1f}% | {sizes} | {full:.0f}% |")
    return lines


HEAD = """
## Real classifiers

Made by `python benchmarks/groups_real.py --repeats {repeats}` with NACP_BENCHMARK_DATA set, on the outputs of
real classifiers; see docs/which-guarantee.md for what is promised. {repeats} draws:
calibration and test points are dealt anew, and so is uniform label noise of rate 0.2. α = 0.1, δ = 0.05, the
score is HPS.

- *One threshold, "pac"*: `calibrate(probs, noisy, noise=0.2)`; nothing is promised for a group.
- *By group, "pac"*: the same with `groups=` and `small="all"`: each group is covered, at δ each.
- *By group, "none"*: thresholds at the estimate itself, without a promise.
- *ACNL by class*: the label-conditional method of Sesia, Wang and Tong (2023), `by="class"`.
- *Clean labels, split by group*: split conformal prediction in each group with the true labels. It promises
  a mean, so some groups of some draws are a little short.

Worst group: the coverage on the test points of that group whose mean over the draws is least. Least in a
draw: the least coverage of any group, averaged over the draws; it is below 0.9 even for perfect thresholds,
as groups have few test points (see the row of the clean labels). Short: the share of groups and draws with a
coverage below 0.9 by more than two standard errors of the test. All labels: the share of groups (for ACNL of
classes) in which no threshold keeps the promise, so that sets hold all labels. ± one standard error over the
draws.
"""
NOTES = {
    "CIFAR-100": " A superclass has 375 points, about as few as will do: `nacp.plan` asks for {least}.",
    "Tiny": " The clusters come from {aside:,} further points and their noisy labels "
    "(`nacp.cluster_classes`),\nanew in each draw, so there is no group that is the same in all.",
    "ImageNet": " With 4.5 points of a class, clusters cannot be had from scores.\n"
    "The kinds come from the order of the classes: dogs, other animals, things.",
}


def main():
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("NACP_BENCHMARK_DATA"))
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    if options.data is None:
        sys.exit("name the folder of the files: --data, or NACP_BENCHMARK_DATA")
    warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
    page = [HEAD.format(repeats=options.repeats)]
    for title, probs, labels, groups, n, aside in experiments(Path(options.data)):
        print(title, flush=True)
        draws = []
        for repeat in range(options.repeats):
            found, tested = one_draw(probs, labels, groups, n, aside, repeat)
            draws.append(found)
        least = ""
        if groups is not None:
            costs = nacp.plan(k=probs.shape[1], noise=NOISE, alpha=ALPHA, delta=DELTA, groups=groups).groups
            least = f"{costs[0].least:,}"
        note = next((text for start, text in NOTES.items() if title.startswith(start)), "")
        page += [
            f"### {title}\n\n{n:,} calibration points, {tested:,} test points."
            f"{note.format(aside=aside, least=least)}\n",
            "| | worst group | least in a draw | short | labels per set | all labels |",
            "|---|---|---|---|---|---|",
            *rows_of(draws, groups is not None),
            "",
        ]
        print("\n".join(page[-len(draws[0]) - 1 :]), flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("\n".join(page).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
