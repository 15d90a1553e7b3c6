"""Theorems as weights: builders of ordinary models, and checks that hold them to the algorithm."""
