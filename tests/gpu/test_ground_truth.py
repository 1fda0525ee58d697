"""A table that is taken on this card agrees with the simulated devices."""

import subprocess
import sys

TOOL = [sys.executable, "-m", "locus.ground_truth"]


def test_a_table_of_this_card(tmp_path):
    path = tmp_path / "table.json.gz"
    only = [word for name in ("lerp", "index_add", "nn.LSTM", "Adam") for word in ("--only", name)]
    for arguments in (["--out", path, "--processes", "2", *only], ["--compare", path]):
        done = subprocess.run([*TOOL, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
