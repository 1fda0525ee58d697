"""`locus check` with the door of real devices, on simulated ones that play the card: what --real does can be tested
where there is no GPU. Arguments: the program, the file for the report."""

import sys

from locus._load import load_bridge
from locus.process import runner
from locus.process.session import Session
from locus.program.end import End
from locus.watch import card_order

import locus

for program, report in [sys.argv[1:3]]:
    locus.simulate(1)
    bridge = load_bridge()
    bridge.use_real_devices()
    card_order.follow(bridge)
    session = Session(program, [])
    session.start()
    try:
        code = runner.run(runner.Target("script", program, []))
    except SystemExit as stop:
        code = int(stop.code or 0)
    session.stop()
    with open(report, "wb") as file:
        file.write(session.json(End(code)))
    sys.exit(code)
