"""Estimates of noise models from an audit, from several annotators, from a classifier, or from privacy.

Every function returns a `NoiseEstimate`, which `nacp.calibrate(noise=...)` takes as it is. Which one to use
and what each assumes: docs/estimation.md. The proofs: docs/guarantees.md, S1 to S3.
"""

from nacp.estimation.accuracy import AnnotatorAccuracy, AnnotatorRow, accuracy_by_annotator
from nacp.estimation.annotators import noise_from_annotators
from nacp.estimation.audit import noise_from_audit
from nacp.estimation.model import noise_from_model
from nacp.estimation.privacy import noise_from_privacy
from nacp.estimation.result import NoiseEstimate, load

__all__ = [
    "AnnotatorAccuracy",
    "AnnotatorRow",
    "NoiseEstimate",
    "accuracy_by_annotator",
    "load",
    "noise_from_annotators",
    "noise_from_audit",
    "noise_from_model",
    "noise_from_privacy",
]
