"""Most operators come to the door with their operands as they are; a PyTorch whose signatures differ would cost speed,
silently."""

from checker import check_source

PROGRAM = """\
from locus._load import load_bridge

print(load_bridge().typed_doors())
"""


def test_most_of_what_trainings_call_has_a_typed_door(program):
    checked = check_source(program, PROGRAM)
    assert int(checked.stdout) >= 400, checked.result.describe()
