"""[tool.locus] in pyproject.toml: what is read, what is refused by file and key, which paths a pattern means."""

import pytest
from locus.errors import UsageError
from locus.process import pages, settings


def write(folder, text):
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_nothing_is_nothing(tmp_path):
    assert settings.find(tmp_path).devices is None
    assert settings.find(write(tmp_path, "[project]\nname = 'x'\n")) == settings.Settings()


def test_what_is_read(tmp_path):
    write(
        tmp_path,
        '[tool.locus]\ndevices = 3\nmemory = "24GB"\nrng = "cpu"\nignore = ["LOC020"]\n'
        '[tool.locus.per-file-ignores]\n"vendor/**" = ["ALL"]\n"test_*.py" = ["LOC003"]\n',
    )
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    write(inner, "[project]\nname = 'x'\n")  # has no table: the search goes on upwards
    found = settings.find(inner)
    assert (found.devices, found.memory, found.rng) == (3, "24GB", "cpu")
    assert found.file == str(tmp_path / "pyproject.toml")
    assert found.ignore == ("LOC020",)  # what patterns mean: tests/engine/ignoring_test.cc
    assert found.per_file == (("vendor/**", ("ALL",)), ("test_*.py", ("LOC003",)))


@pytest.mark.parametrize(
    "text, words",
    [
        ("[tool.locus\ndevices = 2", ["not valid TOML"]),
        ("[tool.locus]\ndevises = 2", ["tool.locus.devises", "not known", "devices"]),
        ("[tool.locus]\ndevices = 'two'", ["tool.locus.devices", "'two'"]),
        ("[tool.locus]\ndevices = 1000", ["tool.locus.devices", "1000", "64"]),
        ("[tool.locus]\ndevices = true", ["tool.locus.devices", "True"]),
        ("[tool.locus]\nmemory = '12parsecs'", ["tool.locus.memory", "12parsecs", "80GiB"]),
        ("[tool.locus]\nrng = 'dice'", ["tool.locus.rng", "dice"]),
        ("[tool.locus]\nignore = 'LOC003'", ["tool.locus.ignore", "list"]),
        ("[tool.locus]\nignore = ['LOC999']", ["tool.locus.ignore", "LOC999", "locus codes"]),
        ("[tool.locus.per-file-ignores]\n'a.py' = ['LOC9']", ["per-file-ignores", "a.py", "LOC9"]),
        ("[tool]\nlocus = 3", ["tool.locus", "not a table"]),
    ],
)
def test_what_is_refused(tmp_path, text, words):
    with pytest.raises(UsageError) as caught:
        settings.find(write(tmp_path, text))
    assert all(word in str(caught.value) for word in [*words, str(tmp_path / "pyproject.toml")]), caught.value


def test_not_utf8(tmp_path):
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.locus]\nignore = ['\xff']\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        settings.find(tmp_path)


def test_pages_are_the_codes_of_the_engine(program):
    """One list: the pages that are installed have the codes, reasons and titles that the C++ side has."""
    assert len(pages.codes()) >= 21 and list(pages.codes()) == sorted(pages.codes())
    text = """
from locus.process import pages
from locus._load import load_bridge
engine = [(c["code"], c["reason"], c["severity"], c["title"]) for c in load_bridge().codes()]
assert engine == [(p.code, p.reason, p.severity, p.title) for p in pages.codes().values()], engine
"""
    program.run_source(text).ok()
