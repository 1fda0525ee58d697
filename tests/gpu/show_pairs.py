"""What a card does with the mistakes of tests/programs/streams and graphs: each one alone, against its right twin.

    python tests/gpu/show_pairs.py [--json FILE] [--jobs N] [--only PROGRAM] [--no-sanitizer]

Needs a card, and nothing of Locus's. Each program runs several times: as it is, with every kernel of the default stream
held up by torch.cuda._sleep, with those of all other streams, and with both; free memory holds sevens before, and is
filled again before each replay of a graph. "shown" is a mistake whose output is not the twin's, in every run that was
held up in one of these ways. Where PyTorch refuses, its words are kept. The same without holding up, under CUDA
sanitizer of PyTorch's.
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "check"))

from corpus import fixed_source, only_mistake, programs, read_mistakes

HOLDS = ("nothing", "default", "others", "all")
ROUNDS = 2
CYCLES = 600_000  # of the card, before each kernel: 0.3 milliseconds
SIZES = (8, 64, 1 << 12, 1 << 16)  # of free memory, in floats
FOLDERS = ("streams", "graphs")


class Card:
    """Holds kernels up, and fills free memory."""

    def __init__(self):
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        self.torch, self.hold = torch, "nothing"
        # All that PyTorch's pool has: programs get these, and memory of theirs.
        self.streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(32))]
        card, replay = self, torch.cuda.CUDAGraph.replay

        class Late(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), options=None):
                card.hold_up()
                return function(*arguments, **(options or {}))

        def late_replay(graph):
            card.fill(card.streams[:1])
            card.hold_up()
            replay(graph)

        self.late = Late
        torch.cuda.CUDAGraph.replay = late_replay

    def hold_up(self):
        """Lets the current stream wait for a while, if it is one that is to be held up."""
        is_default = self.torch.cuda.current_stream() == self.streams[0]
        if self.hold == "all" or self.hold == ("default" if is_default else "others"):
            self.torch.cuda._sleep(CYCLES)

    def fill(self, streams):
        """Free memory holds sevens: what is read too early is not by chance what the last run has left there."""
        for stream in streams:
            with self.torch.cuda.stream(stream):
                taken = [self.torch.full((count,), 7.0, device="cuda") for count in SIZES * 8]
                del taken

    def run(self, text: str, path: Path, hold: str) -> dict:
        """What the program prints, and what it ends with."""
        self.hold = "nothing"
        self.torch.cuda.synchronize()
        self.fill(self.streams)
        self.torch.cuda.synchronize()
        out, words = io.StringIO(), ""
        self.hold = hold
        held = contextlib.nullcontext() if hold == "nothing" else self.late()
        try:
            with contextlib.redirect_stdout(out), held:
                exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
            self.torch.cuda.synchronize()
        except Exception as error:
            words = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return {"printed": out.getvalue().splitlines(), "error": words}


def one(path: Path, number: int) -> dict:
    """The card's verdict on one mistake, in a process of its own."""
    card = Card()
    right_text, wrong_text = fixed_source(path.read_text()), only_mistake(path.read_text(), number)[0]
    right = card.run(right_text, path, "nothing")
    told = {"right": "as meant", "shown": [], "error": ""}
    for hold in HOLDS:
        for _ in range(ROUNDS):
            again = card.run(right_text, path, hold)
            if again != right or again["error"]:
                told["right"] = f"{hold}: {again['error'] or difference(again, right)}"
    for hold in HOLDS:
        seen = []
        for _ in range(ROUNDS):
            wrong = card.run(wrong_text, path, hold)
            if wrong["error"]:
                told["error"] = wrong["error"]
                return told
            seen.append(difference(wrong, right))
        if all(seen):
            told["shown"].append(hold)
            told["wrong"] = seen[0]
    return told


def difference(wrong: dict, right: dict) -> str:
    """The first line that is not the same."""
    for printed, meant in zip(wrong["printed"], right["printed"]):
        if printed != meant:
            return f"{printed} for {meant}"
    return "" if len(wrong["printed"]) == len(right["printed"]) else "other lines"


def sanitized(path: Path, number: int) -> str:
    """What PyTorch's CUDA sanitizer says to the mistake alone; to the twin for number 0."""
    text = only_mistake(path.read_text(), number)[0] if number else fixed_source(path.read_text())
    env = {**os.environ, "TORCH_CUDA_SANITIZER": "1"}
    done = subprocess.run([sys.executable, "-"], input=text, env=env, capture_output=True, text=True, check=False)
    if "data race" in done.stderr or "CUDASanitizerErrors" in done.stderr:
        return "reported"
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return f"ended: {last[:200]}" if done.returncode else "silent"


def ask(path: Path, number: int) -> dict:
    command = [sys.executable, __file__, "--one", str(path), str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {
            "right": "as meant",
            "shown": [],
            "error": f"ended with {done.returncode}: {done.stderr.strip()[-300:]}",
        }
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--only", metavar="PROGRAM")
    parser.add_argument("--no-sanitizer", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(Path(arguments.one[0]), int(arguments.one[1]))))
        return 0
    import torch

    if not torch.cuda.is_available():
        print("show_pairs.py needs a card", file=sys.stderr)
        return 2
    pairs = [
        (path, mistake)
        for folder in FOLDERS
        for path in programs(folder)
        if arguments.only in (None, path.stem)
        for mistake in read_mistakes(path.read_text())
    ]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        told = [pool.submit(ask, path, mistake.number) for path, mistake in pairs]
        said, twins = [], {}
        if not arguments.no_sanitizer:
            said = [pool.submit(sanitized, path, mistake.number) for path, mistake in pairs]
            twins = {path: pool.submit(sanitized, path, 0) for path, _ in pairs}
        table = []
        for at, (path, mistake) in enumerate(pairs):
            case = f"{path.parent.name}/{path.stem} {mistake.number}"
            row = {"case": case, "line": mistake.line, "reason": mistake.reasons[0], **told[at].result()}
            if said:
                row |= {"csan_wrong": said[at].result(), "csan_right": twins[path].result()}
            table.append(row)
            print(json.dumps(row), flush=True)
    shown = sum(bool(row["shown"]) for row in table)
    refused = sum(bool(row["error"]) for row in table)
    print(f"{len(table)} pairs: {shown} shown, {refused} refused, {len(table) - shown - refused} neither")
    if arguments.json:
        card = {"torch": torch.__version__, "card": torch.cuda.get_device_name(), "pairs": table}
        Path(arguments.json).write_text(json.dumps(card, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
