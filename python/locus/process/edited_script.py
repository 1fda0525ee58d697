"""`python -m locus.process.edited_script SCRIPT [ARGUMENT …]`: a rank of a run with fixes. Python itself reads a script
from the disk; this runs it with the text that it has with the fixes (locus.process.overlay)."""

import sys

from locus.process import runner

if __name__ == "__main__":
    sys.exit(runner.run(runner.Target("script", sys.argv[1], sys.argv[2:])))
