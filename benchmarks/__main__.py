"""Time the library on this machine: `python -m benchmarks --quick`."""

import sys

from benchmarks.command import main

if __name__ == "__main__":
    sys.exit(main())
