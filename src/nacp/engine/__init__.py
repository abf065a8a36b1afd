"""The engines: implementations of a few pure functions ("verbs") of one block of rows.

``numpy.py`` defines their results; the compiled engine and the torch engine return the same bits.
"""

from nacp.engine.choose import (
    bet,
    check,
    engine_name,
    inside,
    is_tensor,
    label_scores,
    scores,
    sets,
    shares,
    tally,
    uniforms,
    using,
)
from nacp.engine.formula import traced
from nacp.engine.spec import Spec

__all__ = [
    "Spec",
    "bet",
    "check",
    "engine_name",
    "inside",
    "is_tensor",
    "label_scores",
    "scores",
    "sets",
    "shares",
    "tally",
    "traced",
    "uniforms",
    "using",
]
