"""What is known of coverage: tallies of the pairs, F^n, F^r and F^c, and where F^c crosses a target."""

from nacp.coverage.coverage import Coverage, Estimates
from nacp.coverage.crossing import RULES, Crossing, Rule
from nacp.coverage.curve import CoverageCurve
from nacp.coverage.sample import Question, Sample, Talk, both, together
from nacp.coverage.tally import Tally

__all__ = [
    "RULES", "Coverage", "CoverageCurve", "Crossing", "Estimates", "Question", "Rule", "Sample", "Talk",
    "Tally", "both", "together",
]  # fmt: skip
