"""Plots of curves, diagrams of programs, HTML pages and tables."""

from algoformer.report.canvas import inline_svg, save
from algoformer.report.page import Fact, Page, Picture, Section, Verdict, render
from algoformer.report.plots import error_by_sample, error_by_step, training_loss
from algoformer.report.tables import terminal_table

__all__ = [
    "Fact",
    "Page",
    "Picture",
    "Section",
    "Verdict",
    "error_by_sample",
    "error_by_step",
    "inline_svg",
    "render",
    "save",
    "terminal_table",
    "training_loss",
]
