"""Programs, and the edits that their authors would make."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from checker import LOCUS
from forkrunner import ForkRunner


@dataclasses.dataclass(frozen=True)
class Idioms:
    text: str
    edits: dict[str, str]

    @property
    def fixed(self) -> str:
        text = self.text
        for old, new in self.edits.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text


def assert_fixed(program: ForkRunner, folder: Path, idioms: Idioms, devices: int = 1) -> None:
    """`locus fix` makes these edits and no others; the program prints then what it printed while it was checked."""
    path = folder / "train.py"
    path.write_text(idioms.text)
    result = program.run(LOCUS, "fix", "--devices", str(devices), "--apply", str(path), cwd=folder, deadline=120)
    assert path.read_text() == idioms.fixed, result.describe()
    assert result.code == 0, result.describe()
    tags = {line.split()[0] for line in result.stderr.splitlines() if " LOC" in line}
    assert tags <= {"verified", "fixed"}, result.stderr
    assert result.stdout == program.run(path, simulate=devices, deadline=60).ok().stdout
