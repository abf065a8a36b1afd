"""Checked labels: which to check, and calibration from them, whatever the noise is."""
