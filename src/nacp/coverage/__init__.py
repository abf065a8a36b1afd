"""Coverage estimates: the grid of thresholds, histograms over its cells (tallies), and curves."""
