"""The scores and the table of their names."""

from collections.abc import Callable
from typing import Any, TypeAlias

from nacp.errors import InputError
from nacp.scores.aps import APS
from nacp.scores.base import Score
from nacp.scores.custom import Custom, Precomputed
from nacp.scores.hps import HPS
from nacp.scores.margin import Margin
from nacp.scores.raps import RAPS
from nacp.scores.saps import SAPS
from nacp.scores.topk import TopK

__all__ = ["APS", "HPS", "RAPS", "SAPS", "Custom", "Margin", "Precomputed", "Score", "ScoreLike", "TopK"]

ScoreLike: TypeAlias = str | Score | Callable[[Any], Any]
"""A score: its name, a score object, or a function from probabilities to scores."""

SCORES: dict[str, type[Score]] = {
    "hps": HPS,
    "lac": HPS,
    "thr": HPS,
    "aps": APS,
    "raps": RAPS,
    "saps": SAPS,
    "margin": Margin,
    "topk": TopK,
    "precomputed": Precomputed,
}


def as_score(score: str | Score | Callable[..., Any]) -> Score:
    """Return the score for a name, a score object or a function."""
    if isinstance(score, Score):
        return score
    if isinstance(score, str) and score.lower() in SCORES:
        return SCORES[score.lower()]()
    if callable(score) and not isinstance(score, type):
        return Custom(score)
    raise InputError(
        "score",
        f"must be one of {', '.join(map(repr, SCORES))}",
        found=repr(score),
        remedy="or pass a score object such as nacp.RAPS(penalty=0.01), or a function from probabilities to "
        "scores",
        spoken="",
    )
