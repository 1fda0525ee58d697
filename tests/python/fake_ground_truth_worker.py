"""Speaks as locus.ground_truth.worker does, without PyTorch: entries that answer, die, poison their process or hang."""

import json
import os
import signal
import sys
import time

ENTRIES = [["call", name, ""] for name in ("good", "dies", "poisons", "hangs", "unmade", "slow")]
ABOUT = {"torch": "9.9", "device": "fake", "cuda": None, "simulated": True}


def say(**what):
    print(json.dumps(what), flush=True)


def main():
    given = json.loads(sys.argv[1])
    if "float64" in given["dtypes"]:
        say(about={"error": "no device here"}, entries=[])
        return
    say(about=ABOUT, entries=ENTRIES if given["list"] else [])
    for line in sys.stdin:
        asked = json.loads(line)
        kind, name, variant = ENTRIES[asked["entry"]]
        if name == "unmade":
            say(unmade="no samples")
            continue
        for case in range(asked["behind"], 4):
            key = [kind, name, variant, "float32", case, 0, "this"]
            say(at=[case, key, "2/2"])
            if case == 1:
                if name == "dies":
                    os.kill(os.getpid(), signal.SIGSEGV)
                if name == "hangs":
                    time.sleep(100)
            if name == "slow" and os.environ.get("FAKE_SLOW"):
                time.sleep(0.6)
            poisoned = name == "poisons" and case == 1
            say(row=[key, "2/2", ["AcceleratorError", "CUDA error: poisoned"] if poisoned else ["ok", "cuda:0"]])
            if poisoned:
                os._exit(3)
        say(done=asked["entry"])


if __name__ == "__main__":
    main()
