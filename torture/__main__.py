"""Run `python -m torture`."""

import sys

from torture.command import main

if __name__ == "__main__":
    sys.exit(main())
