"""Make a figure or a table of the paper: `python -m paper fig2`."""

import sys

from paper.command import main

if __name__ == "__main__":
    sys.exit(main())
