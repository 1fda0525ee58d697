"""Definitions and uses: small sources by table, random programs against what really happened, the standard library."""

import ast
import random
import re
import symtable
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from locus.program.flow import Definition, Flow

sys.path.insert(0, str(Path(__file__).parent))

import flow_cases
import flow_programs
import flow_scope_cases

CASES = flow_cases.read(flow_cases.CASES) + flow_cases.read(flow_scope_cases.CASES)
if sys.version_info >= (3, 11):
    CASES += flow_cases.read(flow_scope_cases.SINCE_3_11)
if sys.version_info >= (3, 12):
    CASES += flow_cases.read(flow_scope_cases.SINCE_3_12)


def loads(tree):
    """Names, attributes and items that are read, from left to right."""
    kinds = (ast.Name, ast.Attribute, ast.Subscript)
    read = {node for node in ast.walk(tree) if isinstance(node, kinds) and isinstance(node.ctx, ast.Load)}
    read |= {node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign)}
    return sorted(read, key=lambda node: (node.lineno, node.col_offset))


def line(definition):
    """The line of what is bound; a free name of the scope itself has none."""
    outside = definition.kind == "free" and definition.target is definition.node
    return "free" if outside else str(definition.target.lineno)


def said(flow, use, owners):
    """What the flow says of a use, in the words of the cases."""
    if owners:
        return {line(one) for one in flow.owners(use)}
    found = {line(one.definition) + "^" * one.carried + "~" * one.swallowed for one in flow.reach(use)}
    return found | {"?"} if flow.possibly_unbound(use) and flow.runs(use) else found


@pytest.mark.parametrize("source", [source for _, source in CASES], ids=[title for title, _ in CASES])
def test_case(source):
    tree = ast.parse(source)
    flow = Flow(tree)
    uses = loads(tree)
    checked = 0
    for number, text in enumerate(source.split("\n"), 1):
        comment = text.partition("# use ")[2]
        for claim in filter(None, comment.split("; ")):
            left, arrow, right = re.split(r"( <-|:)", claim, maxsplit=1)
            name, _, nth = left.partition("@")
            here = [use for use in uses if use.lineno == number and ast.unparse(use) == name.replace('"', "'")]
            assert here and (nth or len({frozenset(said(flow, use, False)) for use in here}) == 1), f"{number}: {claim}"
            expected = {one.strip() for one in right.split(",") if one.strip()}
            assert said(flow, here[int(nth or 1) - 1], arrow == " <-") == expected, f"line {number}: {claim}"
            checked += 1
    assert checked, "a case without a use"


def flow_of(source):
    tree = ast.parse(source)
    return Flow(tree), tree


def test_nearest_first():
    loop = ["for i in xs:", "    if i:", "        x = 1", "    use(x)", "    x = 2"]
    swallowing = ["    with a:", "        x = 3", "        go()", "        x = 4"]
    flow, tree = flow_of("\n".join(["x = 0", *loop, *swallowing]))
    use = next(node for node in loads(tree) if node.lineno == 5 and ast.unparse(node) == "x")
    assert [line(one) for one in flow.reaching(use)] == ["4", "1", "10", "8", "6"]


ASKED = """\
def f(self, c):
    x = load()
    y = x
    for i in c:
        x = x.to(self.d)
        for j in [k for k in i]:
            use(x, j)
    self.d = x
    return x
"""


def test_questions():
    flow, tree = flow_of(ASKED)
    function = tree.body[0]
    inner = flow.of(function)
    assert inner.outer is flow and flow.of(tree) is flow
    first, second = inner.definitions("x")
    by_line = {node.lineno: node for node in ast.walk(function) if isinstance(node, ast.stmt)}
    uses = {(node.lineno, ast.unparse(node)): node for node in loads(function)}
    assert [use.lineno for use in flow.uses_of(first)] == [use.lineno for use in inner.uses_of(first)] == [3, 5, 8, 9]
    assert [use.lineno for use in inner.uses_of(second)] == [5, 7, 8, 9]
    assert set(Flow(tree).of(function).definitions("x")) == {first, second}, "equal in another flow of the same tree"
    assert flow.reaches(first, uses[3, "x"]) and not flow.reaches(first, uses[7, "x"])
    assert flow.is_overwritten(first, uses[7, "x"]) and flow.is_overwritten(first, by_line[6])
    assert not flow.is_overwritten(first, uses[9, "x"]), "no iteration, no overwriting"
    assert not flow.is_overwritten(second, by_line[3]), "it comes later"
    assert flow.reaching_after(by_line[2], "x") == (first,) == flow.reaching_before(by_line[3], "x")
    assert flow.reaching_before(by_line[2], "x") == ()
    assert set(flow.reaching_after(by_line[4], "x")) == {first, second} == set(inner.reaching_end("x"))
    assert flow.reaching_after(by_line[9], "x") == (), "a return does not end regularly"
    assert [one.kind for one in inner.reaching_end("self.d")] == ["assign"]
    assert [one.name for one in inner.owners(uses[5, "self.d"])] == ["self"]
    assert [loop.lineno for loop in flow.loops_around(uses[7, "x"])] == [6, 4]
    assert [type(loop) for loop in flow.loops_around(uses[6, "k"])] == [ast.comprehension, ast.For]
    assert [loop.lineno for loop in flow.loops_around(uses[6, "i"])] == [4]
    assert flow.loops_around(uses[4, "c"]) == ()
    assert flow.reaching(by_line[2]) == () and flow.reaching(ast.Name("x", ast.Load())) == ()
    assert {use.lineno for one in inner.definitions() if one.kind == "parameter" for use in inner.uses_of(one)} == {
        4,
        5,
        8,
    }


def test_uses_inside_other_scopes():
    flow, _tree = flow_of("x = 1\ndef f():\n    return [lambda: x for _ in y]\nclass A:\n    z = x\nx = 2\n")
    first, second = flow.definitions("x")
    assert [use.lineno for use in flow.uses_of(first)] == [3, 5]
    assert [use.lineno for use in flow.uses_of(second)] == [3]


def test_who_rebinds():
    flow, tree = flow_of("x = 1\ndef f():\n    global x\n    x = 2\ndef g():\n    x = 3\n")
    assert flow.rebinders("x") == (tree.body[1],)
    assert [(one.kind, line(one)) for one in flow.definitions("x")] == [("assign", "1"), ("free", "4")]


def test_a_function_alone_has_free_names():
    tree = ast.parse("x = 1\ndef f():\n    return x\n")
    flow = Flow(tree.body[1])
    (found,) = flow.reaching(tree.body[1].body[0].value)
    assert found == Definition("x", "free", tree.body[1], tree.body[1])


def run(tree, seed):
    """What a random program read, and the line where it stopped at a name without a value."""
    running = flow_programs.Run(seed)
    names = running.names()
    exec(compile(tree, "<program>", "exec"), names)  # anew: code that has run often gives other lines in 3.11
    unbound = None
    try:
        names["main"](flow_programs.Value(running, 1))
    except (flow_programs.Err, flow_programs.Stop):
        pass
    except NameError as error:
        while error.__traceback__.tb_next:
            error.__traceback__ = error.__traceback__.tb_next
        if error.__traceback__.tb_frame.f_code.co_name == "main":
            unbound = error.__traceback__.tb_lineno
    return running.seen, unbound


def read_names(tree):
    """The names that `u(line, name, value)` is given, by line and name; a walrus is what it binds."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "u")
    return {(call.lineno, call.args[1].value): call.args[2] for call in calls if isinstance(call.args[2], ast.Name)}


def check_program(seed, straight):
    text = flow_programs.Program(seed, straight).text
    tree = ast.parse(text)
    flow, names, checked = Flow(tree), read_names(tree), 0
    possibly = {use.lineno for use in loads(tree) if flow.possibly_unbound(use)}
    possibly |= {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Delete)}
    for chance in range(12):
        seen, unbound = run(tree, chance)
        for number, name, tag in seen:
            use = names.get((number, name))
            if use is not None:
                lines = [line(one) for one in flow.reaching(use)]
                assert str(tag) in lines, f"line {number}: {name} is of line {tag}, not {lines}\n{text}"
                assert not straight or len(lines) == 1, f"line {number}: {name}\n{text}"
                checked += 1
        assert unbound is None or unbound in possibly, f"line {unbound}\n{text}"
    return checked


def test_what_really_reached():
    assert sum(check_program(seed, straight=False) for seed in range(110)) > 1500


def test_one_definition_in_a_straight_line():
    assert sum(check_program(seed, straight=True) for seed in range(60)) > 1000


@pytest.mark.slow
def test_what_really_reached_in_many():
    assert sum(check_program(seed, straight=False) for seed in range(1000, 2000)) > 20_000


def library():
    """The files of the standard library that are Python."""
    root = Path(sysconfig.get_path("stdlib"))
    return sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts)


def check_file(path):
    """Every name that is read has a definition or may be unbound; what is local is what the compiler says."""
    try:
        text = path.read_bytes()
        tree = ast.parse(text)
        table = symtable.symtable(text.decode(), str(path), "exec")
    except (SyntaxError, ValueError, RecursionError):
        return 0
    flow = Flow(tree)
    nodes = list(ast.walk(tree))
    names = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for node in names:
        assert flow.reaching(node) or flow.possibly_unbound(node) or not flow.runs(node), (path, node.lineno, node.id)
    scopes = {}
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            scopes.setdefault((node.name, first), []).append(node)
    tables = [table]
    for one in tables:
        tables.extend(one.get_children())
        found = scopes.get((one.get_name(), one.get_lineno()), ())
        if one.get_type() == "function" and one.get_name() != "top" and len(found) == 1:  # symtable's name of modules
            check_names(flow.of(found[0]), one, f"{path}:{found[0].lineno}")
    return len(names)


def check_names(flow, table, where):
    """The names that a function binds are those that are local for the compiler, or declared."""
    kinds = ("item", "put", "free", "comprehension")
    bound = {one.name for one in flow.definitions() if one.kind not in kinds and "." not in one.name}
    inlined = {one.name for one in flow.definitions() if one.kind == "comprehension"}  # local, since 3.12
    symbols = [one for one in table.get_symbols() if not one.get_name().startswith(("_", "."))]  # not mangled
    local = {one.get_name() for one in symbols if one.is_local() and not one.is_annotated()}
    other = {one.get_name() for one in symbols if one.is_global() and not one.is_declared_global()}
    assert local <= bound | inlined and not bound & other, (where, local - bound - inlined, bound & other)


def test_the_standard_library():
    small = [path for path in library() if path.stat().st_size < 30_000]
    assert sum(map(check_file, random.Random(1).sample(small, 150))) > 10_000


@pytest.mark.slow
def test_the_whole_standard_library():
    assert sum(map(check_file, library())) > 200_000


def seconds(tree):
    """How long the questions about every name of a tree take."""
    start = time.perf_counter()
    flow = Flow(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            flow.reaching(node)
    return time.perf_counter() - start


def body(count):
    """Statements of all sorts, a fixed number of names."""
    for i in range(count // 10):
        x, y = f"x{i % 50}", f"x{(i * 7 + 3) % 50}"
        yield f"    {x} = {y} + {x} * f({y}, k={x})"
        yield f"    if {x} > {y} and ({y} := g({x})):\n        {x} = {y}\n    else:\n        {y} = [{x} for {x} in {y}]"
        yield f"    for {x} in {y}:\n        self.{x} = {y}\n        if {x}:\n            break"
        yield f"    self.{x}.append({y})"


def test_the_cost():
    lines = "\n".join(body(3000))
    function = ast.parse("def f(self):\n" + lines)
    assert seconds(function) < 20  # about one
    guarded = ast.parse("def f(self):\n    try:\n" + lines.replace("    ", "        ") + "\n    except E: pass")
    assert seconds(guarded) < 40


def test_depth():
    deep = ast.parse("use(x)").body
    for _ in range(500):
        deep = [ast.If(ast.Name("x", ast.Load()), [ast.parse("x = 1").body[0], *deep], [])]
    long = "x = 1\n" + "if a: x = 2\n" + "elif x: x = 3\n" * 500 + "use(x)"
    wide = "x = 1\nuse(" + " + ".join(["x"] * 2000) + ")\nuse(" + " or ".join(["x"] * 2000) + ")"
    dotted = "a" + ".b" * 900 + " = 1\nuse(a" + ".b" * 900 + ")"
    chained = "f = " + "lambda: " * 90 + "f"
    for tree in (ast.Module(deep, []), *map(ast.parse, (long, wide, dotted, chained))):
        uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        flow = Flow(tree)
        assert all(flow.reaching(use) or flow.possibly_unbound(use) for use in uses[::10])
