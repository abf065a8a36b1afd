"""The points that commands calibrate on: the options that name their files, and what these hold."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from nacp.cli import options
from nacp.cli.audit_table import read_checked
from nacp.cli.inputs import Points, read_points
from nacp.cli.models import NoiseOptions
from nacp.coverage.curve import Rule
from nacp.errors import InputError


def stated(options: Any, *names: str) -> dict[str, Any]:
    """Return those of the options that differ from their defaults, which are the same in Python."""
    found = {name: getattr(options, name) for name in names}
    return {name: value for name, value in found.items() if value != getattr(type(options), name)}


@dataclass(frozen=True, kw_only=True)
class PointOptions:
    """How points are read."""

    classes: options.Classes = None
    id: options.Id = None
    normalize: Annotated[bool, typer.Option("--normalize", help="Divide each row by its sum.")] = False
    from_logits: Annotated[
        bool, typer.Option("--from-logits", help="The matrix holds logits: take their softmax.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class PointFiles(PointOptions):
    """Probabilities with noisy labels."""

    probs: options.Probs
    labels: options.Labels

    def read(self, cal: Any = None, **known: Any) -> tuple[Points, dict[str, Any]]:
        """Read the points; return them, and the arguments of functions in Python that the options give.

        With a calibration, these are only what it does not have.
        """
        more = {"names": self.classes, "id": self.id, "like": cal} | known
        found, given = read_checked(self.probs, self.labels, cal or self, **more)
        if cal is None:
            given["classes"] = found.classes
        return found, given | stated(self, "normalize", "from_logits")


@dataclass(frozen=True, kw_only=True)
class SampleOptions(PointOptions, NoiseOptions):
    """What is known of the labels: a noise model or checked labels."""

    clean: options.Clean = None
    audit: options.Audit = None
    random_state: options.RandomState = 0
    drop_unlabelled: options.Drop = False


@dataclass(frozen=True, kw_only=True)
class Sample(PointFiles, SampleOptions):
    """Points to calibrate on, with a noise model or checked labels."""

    def open(self, groups: str | None = None, cal: Any = None) -> tuple[Points, dict[str, Any]]:
        """Read the points, the noise model, the checked labels and the `groups`, if they are given."""
        known = {"clean": self.clean, "audit": self.audit, "groups": groups, "drop": self.drop_unlabelled}
        found, given = self.read(cal, **known)
        optional = any(each is not None for each in (self.clean, self.audit, cal))
        given["noise"] = self.read_noise(found.k, found.classes, optional=optional, labels=self.labels)
        if groups is not None:
            given["groups"] = found.groups
        return found, given | stated(self, "random_state")


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

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `nacp.calibrate`, but for the groups, which are read with the points."""
        return stated(self, *vars(self).keys() - {"groups"})


@dataclass(frozen=True, kw_only=True)
class TestPoints:
    """The points on which sets are measured."""

    test_probs: Annotated[
        str | None, typer.Option(help="Points whose sets are measured.", show_default="the same points")
    ] = None
    test_labels: Annotated[str | None, typer.Option(help="Their true labels.")] = None

    def read(self, points: Points, groups: str | None = None) -> tuple[Points, dict[str, Any]]:
        """Read the points, with their groups; return them, by default `points`, and the arguments."""
        if self.test_probs is None:
            for name, given in (("test_labels", self.test_labels), ("test_groups", groups)):
                if given is not None:
                    raise InputError(name, "needs --test-probs, the probabilities of the same points")
            return points, {"test_probs": None, "test_labels": None}
        found = read_points(self.test_probs, self.test_labels, groups=groups, true=True, like=points)
        labels = None if self.test_labels is None else found.labels
        by_group = {} if groups is None else {"test_groups": found.groups}
        return found, {"test_probs": found.probs, "test_labels": labels} | by_group
