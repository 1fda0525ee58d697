"""`python -m locus`: the command line."""

import sys

from locus.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
