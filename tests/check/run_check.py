"""`locus` as a script, for the runner that forks programs."""

import sys

from locus.commands.cli import main

# In a loop, because the runner's own `except` is below this frame: a handler around a whole loop is not taken for the
# program's wish to catch the error.
for arguments in [sys.argv[1:]]:
    sys.exit(main(arguments))
