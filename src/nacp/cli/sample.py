"""The points that commands calibrate on: the options that name their files, and what these hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import typer

from nacp._types import Array
from nacp.cli import options
from nacp.cli.inputs import read_clean, read_groups, read_points, read_rows
from nacp.cli.models import NoiseOptions
from nacp.coverage.curve import Rule
from nacp.errors import InputError


class Opened(NamedTuple):
    """What the files of points hold, and the arguments of functions in Python that the options give."""

    probs: Array
    labels: Array
    classes: Sequence[Any] | None
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Points:
    """Probabilities with noisy labels."""

    probs: options.Probs
    labels: options.Labels
    classes: options.Classes = None
    normalize: Annotated[bool, typer.Option("--normalize", help="Divide each row by its sum.")] = False
    logits: Annotated[bool, typer.Option("--logits", help="The matrix holds logits: take their softmax.")] = (
        False
    )

    def open(self) -> Opened:
        """Read the points."""
        return self._read()

    def _read(self, **beside: Any) -> Opened:
        probs, labels, classes = read_points(self.probs, self.labels, names=self.classes, **beside)
        given = {"classes": classes, "normalize": self.normalize, "from_logits": self.logits}
        return Opened(probs, labels, classes, given)


@dataclass(frozen=True, kw_only=True)
class Sample(Points, NoiseOptions):
    """Points to calibrate on, with a noise model or checked labels."""

    clean: options.Clean = None
    seed: options.Seed = 0
    drop_unlabelled: options.Drop = False

    def open(self, groups: str | None = None, *, optional: bool = False) -> Opened:
        """Read the points, the noise model and the checked labels.

        The `groups` of the points may be a column of the same table. The noise model is `optional` if there
        are checked labels elsewhere.
        """
        opened = self._read(clean=self.clean, groups=groups, drop=self.drop_unlabelled)
        n, k = opened.probs.shape
        optional = optional or self.clean is not None
        noise = self.read_noise(k, optional=optional, labels=self.labels)
        given: dict[str, Any] = {"noise": noise, "random_state": self.seed}
        if self.clean is not None:
            given["clean"] = read_clean(self.clean, n, opened.classes, noisy=self.labels)
        return opened._replace(arguments=opened.arguments | given)


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a calibration is to promise, by which score, and for which groups."""

    alpha: options.Alpha = 0.1
    score: options.ScoreName = "hps"
    guarantee: Annotated[
        str | None,
        typer.Option(
            help="pac, binomial, expected, nacp, acnl, crcp, none or split.",
            show_default="pac; split for noise none",
        ),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(help="The probability with which the promise may fail.", show_default="the guarantee's"),
    ] = None
    crossing: Annotated[Rule, typer.Option(help="Where the estimate crosses the target.")] = "last"
    groups: Annotated[
        str | None,
        options.file(
            help="A threshold for each group. The group of each row, one per line or a column "
            "(groups.csv:column); or of each class: .json."
        ),
    ] = None
    by: options.By = None
    simultaneous: options.Simultaneous = False
    small: Annotated[
        Literal["error", "all", "merge"],
        typer.Option(help="What to do with groups of too few points; all: their sets hold all labels."),
    ] = "error"

    def arguments(self, opened: Opened) -> dict[str, Any]:
        """Return the arguments of `nacp.calibrate`, with the groups of the points."""
        groups = None if self.groups is None else read_groups(self.groups, len(opened.probs), opened.classes)
        return vars(self) | {"groups": groups}


@dataclass(frozen=True, kw_only=True)
class TestPoints:
    """The points on which sets are measured."""

    test_probs: Annotated[
        str | None, typer.Option(help="Points whose sets are measured.", show_default="the same points")
    ] = None
    test_labels: Annotated[str | None, typer.Option(help="Their true labels.")] = None

    def arguments(self, opened: Opened) -> dict[str, Any]:
        """Read the points, and return them as arguments of functions."""
        probs, labels, k = None, None, opened.probs.shape[1]
        if self.test_probs is None:
            if self.test_labels is not None:
                raise InputError("test_labels", "needs --test-probs, the probabilities of the same points")
        elif self.test_labels is None:
            probs, _ = read_rows(self.test_probs, opened.classes, k=k)
        else:
            probs, labels, _ = read_points(self.test_probs, self.test_labels, opened.classes, k=k)
        return {"test_probs": probs, "test_labels": labels}
