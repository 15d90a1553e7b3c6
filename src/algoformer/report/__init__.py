"""Plots of curves, diagrams of programs, HTML pages and tables."""

from algoformer.common.tables import show as show
from algoformer.report.canvas import inline_svg as inline_svg
from algoformer.report.canvas import save as save
from algoformer.report.page import Link as Link
from algoformer.report.page import Page as Page
from algoformer.report.page import Picture as Picture
from algoformer.report.page import Section as Section
from algoformer.report.page import render as render
from algoformer.report.plots import error_by_sample as error_by_sample
from algoformer.report.plots import error_by_step as error_by_step
from algoformer.report.plots import training_loss as training_loss
from algoformer.report.tables import markdown_table as markdown_table
from algoformer.report.tables import terminal_table as terminal_table
