"""The index of a file says what a walk over its tree would say, for real files; an edit is judged as if the whole file
had been parsed again."""

import ast
import random
from pathlib import Path

import pytest
from locus.program import source, text_index

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "programs" / "wrong").glob("*.py"))[::6] + sorted((ROOT / "check").glob("test_fix*.py"))

AWKWARD = '''\
"""Text that is hard to take apart."""
x = 1; y = 2
if x: y = 3
else: y = 4
try: z = """a
b"""; w = 5
except (ValueError, KeyError): w = 6
finally: pass
@property
@staticmethod
def f(a, *b, c=lambda q: q.to("cuda"), **d):
    match a:
        case 1: return 2
        case [p, *rest]:
            p.to("cuda")
            return rest
    for i in b: i.to(x); i = i.cuda()
    with open(a) as g, open(a) as h:
        class Inner:
            def f(self): self.x = [t for t in self.y]; return self.x
    return f


async def f(a):
    async for u, v in a:
        await u.to(v)
        table[u], other = v, u
    k: int = 3
    del k
    k.l.m = n = o[p] = 4
    import a.b as c, d.e
    from f import g as h
'''


def sources():
    yield source.Source("awkward.py", AWKWARD, True)
    for path in FILES:
        yield source.Source(str(path), path.read_text(), True)


@pytest.fixture(scope="module", params=list(sources()), ids=lambda file: Path(file.file).name)
def file(request):
    return request.param


def test_what_is_found_is_what_a_walk_finds(file):
    scopes = [node for node in ast.walk(file.tree) if isinstance(node, (*source.Scope, ast.For, ast.Call))]
    keys = {key for node in ast.walk(file.tree) for key in text_index._keys(node)}
    assert keys
    for scope in scopes:
        by_key = {}
        for node in ast.walk(scope):
            for key in dict.fromkeys(text_index._keys(node)):
                by_key.setdefault(key, []).append(node)
        wanted = keys if scope is file.tree else [*by_key, *random.Random(1).sample(sorted(keys), min(9, len(keys)))]
        for key in wanted:
            assert file.find(scope, key) == by_key.get(key, []), key
        two = list(by_key)[:2]
        assert file.find(scope, *two) == [n for n in ast.walk(scope) if {*text_index._keys(n)} & {*two}]


def test_the_statements_of_a_line(file):
    every = [node for node in ast.walk(file.tree) if isinstance(node, ast.stmt)]
    for line in range(-1, len(file.lines) + 3):
        around = [s for s in every if text_index.first_line(s) <= line <= s.end_lineno]
        assert set(file.statements_at(line)) == set(around)
        assert file.statements_at(line) == sorted(around, key=lambda s: (s.lineno, s.col_offset, -s.end_lineno))


def test_functions_and_classes(file):
    functions = [node for node in ast.walk(file.tree) if isinstance(node, source.Function)]
    for node in functions:
        name = getattr(node, "name", "<lambda>")
        same = [n for n in functions if getattr(n, "name", "<lambda>") == name]
        first = text_index.first_line(node)
        assert file.function_at(first, name) is next(n for n in same if text_index.first_line(n) == first)
        assert file.function_at(first + 1_000_000, name) is None
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ClassDef):
            names = [a.name for a in file.ancestors(node) if isinstance(a, (ast.ClassDef, ast.FunctionDef))]
            found = file.class_named(".<locals>.".join([*reversed(names), node.name]))
            assert found is not None and found.name == node.name
    assert file.class_named("No.Such") is None


@pytest.mark.parametrize("longest", [0, 200])
def test_an_edit_is_judged_as_by_the_whole_file(file, longest, monkeypatch):
    """With every block taken by itself, and with only long ones."""
    monkeypatch.setattr(source, "_LONG", longest)
    chance = random.Random(7)
    judged = {True: 0, False: 0}
    for _ in range(120 if file.text is AWKWARD else 25):
        line = chance.randrange(len(file.lines))
        old = file.lines[line]
        indent = old[: len(old) - len(old.lstrip())]
        new = chance.choice(
            [f"{old}  # more", old.replace("(", "((", 1), f"{old.rstrip()}.to(device)", f"{indent}pass"]
        )
        inserted = chance.choice([f"{indent}x = x.to(device)", f"{indent}x = (", "x = 1", f"{indent}    x = 1"])
        for edit in (
            {"file": file.file, "line": line + 1, "old": old, "new": new, "note": ""},
            {"file": file.file, "line": line, "old": "", "new": inserted, "note": ""},
        ):
            if edit["old"] == edit["new"] or (old == "" and edit["line"] == line + 1):
                continue
            try:
                ast.parse(file.apply(edit))
                is_right = True
            except SyntaxError:
                is_right = False
            judged[is_right] += 1
            if file._checked(edit) is not None:
                assert is_right, edit
            elif is_right:
                # A piece may be stricter than the file, never more lenient; what Locus writes is always a statement.
                assert not _is_plain(file, edit), edit
    assert judged[True] and judged[False]


def _is_plain(file, edit):
    """Whether an edit changes one whole statement on its own line, or puts one after such a line, as Locus's do."""
    around = file.statements_at(edit["line"])
    return (
        bool(around) and not hasattr(around[-1], "body") and edit["old"] != "" and edit["new"].startswith(edit["old"])
    )
