"""Rules that hold for every file of the tree."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = {".git", ".cache", "build", "dist", "__pycache__", ".pytest_cache", ".ruff_cache"}

# In pieces, so that this file names none of them.
HOSTS = [
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "download" + r"\.pytorch\.org",
    "deb" + r"\.debian\.org",
    "registry" + r"\.npmjs\.org",
    "ana" + r"conda\.org",
    "index" + "-url",
    "find" + "-links",
]


def files():
    """Every file that belongs to the tree, as git sees it where there is git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        ).stdout.decode()
        return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".venv")]
            found += [pathlib.Path(folder) / name for name in names]
        return found


def test_no_file_names_a_package_registry():
    """Where packages come from is the machine's setting, never the project's."""
    pattern = re.compile("|".join(HOSTS), re.IGNORECASE)
    wrong = []
    for path in files():
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            match = pattern.search(line)
            if match:
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {match.group()}")
    assert not wrong


def test_nobody_is_told_to_install_the_other_locus():
    """The distribution is torch-locus; the name locus belongs to another project there."""
    pattern = re.compile(r"pip3?\s+(?:install|uninstall|show|download)\b[^\n;`\"')]*(?<![-\w/.])locus\b(?![-/.\w])")
    wrong = []
    for path in files():
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if pattern.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong
    assert pattern.search("pip " + "install --no-deps " + "locus") and not pattern.search("pip install ./locus")
