"""`python -m algoformer` is the command line."""

from algoformer.cli import run

run()
