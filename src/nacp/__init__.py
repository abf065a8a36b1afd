"""Noise-aware conformal prediction: small prediction sets you can trust, from labels you cannot."""

from typing import TYPE_CHECKING, Any

from nacp._sensitivity import Sensitivity, sensitivity
from nacp._sensitivity_display import SensitivityDisplay
from nacp.calibration import Calibration, NoValidThresholdWarning, calibrate, load
from nacp.coverage import CoverageCurve, coverage_curve
from nacp.diagnostics import Diagnosis, diagnose
from nacp.estimation import (
    NoiseEstimate,
    noise_from_annotators,
    noise_from_audit,
    noise_from_model,
    noise_from_privacy,
)
from nacp.guarantees import (
    ACNL,
    CRCP,
    NACP,
    PAC,
    Binomial,
    Expected,
    Guarantee,
    SplitConformal,
    Uncorrected,
)
from nacp.metrics import Evaluation, evaluate
from nacp.noise import GroupNoise, MatrixNoise, Noise, RandomizedResponse, UniformNoise
from nacp.planning import Plan, plan
from nacp.scores import APS, HPS, RAPS, SAPS, Custom, Margin, Precomputed, Score, TopK
from nacp.sets import PredictionSets
from nacp.theorems import NoisyComparison, compare_with_noisy_cp, threshold_bracket

if TYPE_CHECKING:
    from nacp.sklearn import NoiseAwareClassifier

__version__ = "0.1.0"

__all__ = [
    "ACNL",
    "APS",
    "CRCP",
    "HPS",
    "NACP",
    "PAC",
    "RAPS",
    "SAPS",
    "Binomial",
    "Calibration",
    "CoverageCurve",
    "Custom",
    "Diagnosis",
    "Evaluation",
    "Expected",
    "GroupNoise",
    "Guarantee",
    "Margin",
    "MatrixNoise",
    "NoValidThresholdWarning",
    "Noise",
    "NoiseAwareClassifier",
    "NoiseEstimate",
    "NoisyComparison",
    "Plan",
    "Precomputed",
    "PredictionSets",
    "RandomizedResponse",
    "Score",
    "Sensitivity",
    "SensitivityDisplay",
    "SplitConformal",
    "TopK",
    "Uncorrected",
    "UniformNoise",
    "calibrate",
    "compare_with_noisy_cp",
    "coverage_curve",
    "diagnose",
    "evaluate",
    "load",
    "noise_from_annotators",
    "noise_from_audit",
    "noise_from_model",
    "noise_from_privacy",
    "plan",
    "sensitivity",
    "threshold_bracket",
]


def __getattr__(name: str) -> Any:
    """Import the scikit-learn estimator only when it is asked for: scikit-learn is an extra."""
    if name == "NoiseAwareClassifier":
        from nacp.sklearn import NoiseAwareClassifier

        return NoiseAwareClassifier
    raise AttributeError(f"module 'nacp' has no attribute {name!r}")
