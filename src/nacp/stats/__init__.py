"""Statistics that know nothing of conformal prediction."""
