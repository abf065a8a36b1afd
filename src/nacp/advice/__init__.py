"""Advice before and after calibration: plans, comparisons, and tests of the noise model."""
