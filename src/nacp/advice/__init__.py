"""Advice: what a promise costs, how methods compare, and whether a noise model can be right."""
