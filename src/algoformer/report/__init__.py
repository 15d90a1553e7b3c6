"""Plots of curves, diagrams of programs, HTML pages and tables."""

from algoformer.evaluation.numbers import show
from algoformer.report.canvas import inline_svg, save
from algoformer.report.page import Fact, Link, Page, Picture, Section, render
from algoformer.report.plots import error_by_sample, error_by_step, training_loss
from algoformer.report.tables import markdown_table, terminal_table

__all__ = [
    "Fact",
    "Link",
    "Page",
    "Picture",
    "Section",
    "error_by_sample",
    "error_by_step",
    "inline_svg",
    "markdown_table",
    "render",
    "save",
    "show",
    "terminal_table",
    "training_loss",
]
