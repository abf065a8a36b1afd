"""The engines: implementations of a few pure functions ("verbs") of one block of rows.

``numpy.py`` defines their results; the compiled engine and the torch engine return the same bits.
"""

from nacp.engine.choose import Engine, current, inside, is_tensor, of, using
from nacp.engine.formula import traced
from nacp.engine.spec import Spec

__all__ = ["Engine", "Spec", "current", "inside", "is_tensor", "of", "traced", "using"]
