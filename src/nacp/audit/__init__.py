"""Checked labels: which to check, and calibration from them, which needs no noise model."""
