"""`locus check` with the door of real devices, on simulated ones that play the card: what --real does can be tested
where there is no GPU. Arguments: the program, the file for the report."""

import sys

from locus._load import load_bridge
from locus.process import runner
from locus.process.session import Session

import locus

for program, report in [sys.argv[1:3]]:
    locus.simulate(1)
    load_bridge().use_real_devices()
    session = Session(program, [])
    session.start()
    try:
        code = runner.run(runner.Target("script", program, []))
    except SystemExit as stop:
        code = int(stop.code or 0)
    session.stop()
    with open(report, "wb") as file:
        file.write(session.json(code))
    sys.exit(code)
