"""The waits that are written for races: on which device, for which stream, behind which line."""

import pytest
from checker import check_source

START = "import torch\n"

COPIED_ON = """
src = torch.arange(6.0, device="cuda:0")
host = src.to("cpu", non_blocking=True)
{wait}
other = host.to("cuda:{device}")
print(other.sum().item())
"""


def test_a_copy_that_the_host_waits_for_may_be_early(program):
    (finding,) = check_source(program, START + COPIED_ON.format(wait="", device=1)).findings
    assert (finding["code"], finding["uses"][0]["line"]) == ("LOC020", 6)
    back = """
host = torch.zeros(64).pin_memory()
a = host.to("cuda:0", non_blocking=True)
host.copy_(torch.ones(64, device="cuda:1"))
print(a.sum().item())
"""
    (finding,) = check_source(program, START + back).findings
    assert (finding["code"], finding["uses"][0]["line"]) == ("LOC034", 5)


@pytest.mark.parametrize(
    ("wait", "device"),
    [
        ("", 0),
        ("torch.cuda.synchronize(0)", 1),
        ("torch.cuda.current_stream(1).wait_stream(torch.cuda.current_stream(0))", 1),
    ],
)
def test_a_copy_behind_the_other_is_right(program, wait, device):
    checked = check_source(program, START + COPIED_ON.format(wait=wait, device=device))
    assert checked.findings == [], checked.result.describe()
