"""`locus doctor`: what is installed, whether it works, and what is simulated with this PyTorch."""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import locus
from locus import _load, _torch_info
from locus.commands.output import show
from locus.errors import LocusError
from locus.surface import simulated

SUMMARY = "show what is installed, test it, and list what is simulated"

SELF_TEST = """
import collections, json, locus
locus.simulate(devices=2)
import torch
from locus._load import load_bridge

def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    inputs = torch.linspace(-1, 1, 32).view(8, 4).to(device)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

def refusal():
    try:
        torch.ones(2, device="cuda:0") + torch.ones(2)
    except RuntimeError as error:
        return str(error).splitlines()[0]

kinds = collections.Counter(load_bridge().operator_kinds().values())
print(json.dumps({"same": train("cuda:1") == train("cpu"), "refusal": refusal(), "kinds": kinds}))
"""
"""In a process of its own: three training steps on a simulated device and on the CPU, and one mistake."""

KINDS = {
    "simulated": "run by PyTorch's CPU kernels or made of operators that are",
    "written": "exist for CUDA only, or place memory: Locus brings them along",
    "refused": "exist for CUDA only: refused by name",
    "host only": "exist for the CPU only: refused, as on a card",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--json", action="store_true", help="the same for programs")


def execute(arguments: argparse.Namespace) -> int:
    """Prints what it found. 0: all well, 2: Locus can't simulate here."""
    found = installed()
    found["self-test"] = self_test() if not found["problem"] else {}
    well = bool(found["self-test"].get("well"))
    show((json.dumps({**found, "well": well}, indent=2) if arguments.json else as_text(found)) + "\n")
    if not well:
        raise LocusError(found["problem"] or found["self-test"]["problem"])
    return 0


def installed() -> dict[str, Any]:
    """Versions and builds, found without importing PyTorch; "problem" is empty where they go together."""
    torch = _torch_info.find_installed()
    found: dict[str, Any] = {
        "locus": locus.__version__,
        "python": platform.python_version(),
        "torch": torch.version if torch else "",
        "torch folder": str(torch.folder) if torch else "",
        "bridge": "",
        "problem": "",
    }
    try:
        found["bridge"] = _load.find_bridge().name
    except LocusError as error:
        found["problem"] = str(error)
    return found


def self_test() -> dict[str, object]:
    """What the self-test's process said; "well" when all of it is right."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCUS_")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SELF_TEST], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"well": False, "problem": f"the self-test failed: {last}"}
    said = json.loads(done.stdout.splitlines()[-1])
    refused = said["refusal"] == (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    )
    problem = "" if said["same"] else "a training step on a simulated device differs from the CPU's"
    problem = problem or ("" if refused else f"a mistake was not refused as a card refuses it: {said['refusal']}")
    return {**said, "well": not problem, "problem": problem}


def _plain(markdown: str) -> str:
    """A table cell for a terminal."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "").replace("**", "")


def as_text(found: Mapping[str, Any]) -> str:
    """For people."""
    test = found["self-test"]
    build = "CUDA build" if "+cu" in found["torch"] else "CPU build" if "+cpu" in found["torch"] else "build unknown"
    place = f"{found['torch']}  ({found['torch folder']}; {build})"
    lines = [
        f"locus    {found['locus']}  ({pathlib.Path(locus.__file__).parent})",
        f"Python   {found['python']}  ({sys.executable})",
        f"PyTorch  {place if found['torch'] else 'not installed'}",
        f"bridge   {found['bridge'] or 'none for this PyTorch'}",
    ]
    if not test.get("well"):
        return "\n".join([*lines, "", "self-test: not passed"])
    lines += ["", "self-test: passed (three training steps equal the CPU's; a misplaced operand is refused)", ""]
    lines += ["operators"]
    for kind, count in collections.Counter(test["kinds"]).most_common():
        lines.append(f"  {count:5d}  {KINDS[kind]}")
    for section, features in simulated.SECTIONS.items():
        lines += ["", _plain(section)]
        for feature in features:
            head = f"  {feature.status:<6}  {_plain(feature.name)}"
            text = head + (f": {_plain(feature.notes)}" if feature.notes else "")
            lines += textwrap.wrap(text, 100, subsequent_indent=" " * 10)
    return "\n".join(lines)
