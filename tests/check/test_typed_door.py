"""Most operators come to the door, and to the kernels of simulated devices, with their operands as they are; a PyTorch
whose signatures differ would cost speed, silently."""

from checker import check_source

PROGRAM = """\
from locus._load import load_bridge

print(load_bridge().typed_doors(), load_bridge().typed_kernels())
"""


def test_most_of_what_trainings_call_is_typed(program):
    checked = check_source(program, PROGRAM)
    doors, kernels = map(int, checked.stdout.split())
    assert doors >= 400, checked.result.describe()
    assert kernels >= 400, checked.result.describe()
