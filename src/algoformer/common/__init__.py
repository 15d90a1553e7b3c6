"""Helpers that several rooms share and that import nothing else of this package."""
