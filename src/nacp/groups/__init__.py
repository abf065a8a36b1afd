"""Coverage for each group of rows or of classes: thresholds, estimates and intervals."""
