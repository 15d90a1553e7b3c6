"""Helpers that every room may use: names, devices, atomic files, provenance, dataclasses as JSON."""
