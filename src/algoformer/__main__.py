"""`python -m algoformer` is the command line."""

import sys

from algoformer.cli import main

sys.exit(main())
