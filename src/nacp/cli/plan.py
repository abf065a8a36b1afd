"""``nacp plan``: what each guarantee needs, before calibrating."""

from typing import Annotated

import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import command
from nacp.cli.inputs import read_groups
from nacp.cli.models import NoiseOptions
from nacp.cli.terminal import progress_of, show


@command(
    "plan",
    "nacp plan --k 1000 --noise 0.2 --alpha 0.1 --excess 0.02",
    "nacp plan --k 10 --noise matrix.npy --n 5000",
    "nacp plan --k 10 --noise 0.1 --n 5000 --checked 500",
    "nacp plan --k 10 --noise 0.2 --n 5000 --groups shares.json --simultaneous",
)
def plan_command(
    k: Annotated[int, typer.Option("--k", help="The number of classes.", show_default=False)],
    noise: NoiseOptions,
    alpha: options.Alpha = 0.1,
    delta: options.Delta = 0.05,
    n: Annotated[int, typer.Option("--n", help="The number of calibration points to plan for.")] = 1000,
    excess: Annotated[
        float, typer.Option(help="Also say how many labels are needed for an excess of no more than this.")
    ] = 0.01,
    checked: Annotated[
        int | None,
        typer.Option(help="The number of labels to plan to check, of the points.", show_default="300"),
    ] = None,
    groups: Annotated[
        str | None,
        options.file(
            help="Also say how many points each group needs. Its share, in a .json such as "
            '{"north": 0.2, "south": 0.8}; or the group of each row or class, as for nacp calibrate.'
        ),
    ] = None,
    by: options.By = None,
    simultaneous: options.Simultaneous = False,
) -> None:
    """Say what coverage each guarantee will reach, before labels are bought or checked."""
    grouping = None if groups is None else read_groups(groups, None, None)
    with progress_of("planning"):
        found = nacp.plan(
            k=k,
            noise=noise.read_noise(k, optional=True),
            alpha=alpha,
            delta=delta,
            n=n,
            excess=excess,
            checked=checked,
            groups=grouping,
            by=by,
            simultaneous=simultaneous,
        )
    show({"k": k} | vars(found), found)
