"""`locus` as a script, for the runner that forks programs, with deadlines of seconds, no program that is short enough
to be run to its end again, and temporary files where TMPDIR says:
`run_impatient.py SECONDS_FOR_A_RUN SECONDS_FOR_ALL SECONDS_AT_THE_END COMMAND …`."""

import sys
import tempfile

from locus.commands.cli import main
from locus.fixing import trying
from locus.process import reruns

one, every, end = (float(word) for word in sys.argv[1:4])
reruns.ONE_RUN, reruns.ALL_RUNS, reruns.PATIENCE = (one, 0.0), (every, 0.0), end
trying._SHORT = 0.0
tempfile.tempdir = None
for arguments in [sys.argv[4:]]:
    sys.exit(main(arguments))
