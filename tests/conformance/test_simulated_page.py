"""docs/simulated.md and `locus doctor` say what the tests prove."""

import json
import pathlib
import re
import subprocess
import sys

from locus.surface import simulated

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test_the_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_simulated_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_each_feature_is_tested_where_it_says():
    for section, features in simulated.SECTIONS.items():
        for feature in features:
            assert feature.status in ("yes", "partly", "no"), feature
            assert feature.test or feature.status != "yes", f"{section}: {feature.name} has no test"
            path, _, name = feature.test.partition("::")
            assert not path or (ROOT / path).is_file(), feature
            assert not name or re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), feature


def test_every_feature_test_is_in_the_table():
    """A test of a feature that nobody reads about would be a pity."""
    named = {feature.test for features in simulated.SECTIONS.values() for feature in features}
    path = "tests/conformance/test_features.py"
    for name in re.findall(r"^def (test_\w+)\(", (ROOT / path).read_text(), re.MULTILINE):
        assert f"{path}::{name}" in named, name


def test_doctor():
    command = [sys.executable, "-m", "locus", "doctor"]
    text = subprocess.run(command, capture_output=True, text=True, check=False)
    assert text.returncode == 0, text.stderr
    assert "self-test: passed" in text.stdout
    for features in simulated.SECTIONS.values():
        for feature in features:
            assert feature.name.replace("`", "").split(":")[0][:40] in " ".join(text.stdout.split()), feature.name
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    kinds = found["self-test"]["kinds"]
    assert found["well"] and kinds["simulated"] > 1500 and kinds["written"] > 20
    assert kinds.keys() <= {"simulated", "written", "refused", "host only"}
