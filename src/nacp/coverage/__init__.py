"""What is known of coverage: the grid of thresholds, histograms over its cells, and curves of estimates."""
