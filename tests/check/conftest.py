"""Makes the helpers of this folder importable, and keeps the slow runs for `make test-all`."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "slow: minutes rather than seconds; run with -m slow, or TEST_ALL=1 in the environment"
    )


def pytest_collection_modifyitems(config, items):
    from known_misses import KNOWN_MISSES

    for item in items:
        test, _, program = item.name.partition("[")
        reason = KNOWN_MISSES.get(test, {}).get(program.rstrip("]"))
        if reason and item.path.name == "test_buggy.py":
            item.add_marker(pytest.mark.xfail(strict=True, reason=reason))
    if "slow" in (config.option.markexpr or "") or os.environ.get("TEST_ALL"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow; run with -m slow"))
