"""Tests on a real GPU: skipped, with the reason, where there is none. CUDA is left untouched in this process, so that
the programs' processes can be forked from it."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "check")]

_LOOK = "import torch; print(torch.version.cuda or 'none', torch.cuda.device_count())"


def _missing() -> str:
    found = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=False).stdout.split()
    if len(found) != 2:
        return "PyTorch can't be asked for its devices"
    if found[0] == "none":
        return "needs a real GPU; this PyTorch is a CPU build"
    return "" if int(found[1]) else "needs a real GPU; this machine has none"


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a real GPU; run with -m gpu")


def pytest_collection_modifyitems(items):
    mine = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = _missing() if mine else ""
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
