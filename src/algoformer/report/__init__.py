"""Plots of curves, diagrams of programs, HTML pages and tables."""

from algoformer.evaluation.numbers import show
from algoformer.report.canvas import inline_svg, save
from algoformer.report.dots import Dot, dot_figure
from algoformer.report.figures import Panel, Series, Sweep, panel_figure, sweep_figure
from algoformer.report.page import Fact, Link, Page, Picture, Section, Verdict, render
from algoformer.report.plots import error_by_sample, error_by_step, training_loss
from algoformer.report.tables import markdown_table, terminal_table

__all__ = [
    "Dot",
    "Fact",
    "Link",
    "Page",
    "Panel",
    "Picture",
    "Section",
    "Series",
    "Sweep",
    "Verdict",
    "dot_figure",
    "error_by_sample",
    "error_by_step",
    "inline_svg",
    "markdown_table",
    "panel_figure",
    "render",
    "save",
    "show",
    "sweep_figure",
    "terminal_table",
    "training_loss",
]
