"""What a definition takes from which value, and the parts of expressions that a path selects."""

import ast

import pytest
from locus.program.flow import Flow, Member, Star, Step, select

DEFINITIONS = [
    ("x = v", "assign", "v", ()),
    ("x, y = v", "assign", "v", (0,)),
    ("y, x = 1, 2", "assign", "2", ()),
    ("y, (z, *x) = v", "assign", "v", (1, Star(1, 0))),
    ("y, (z, *x), w = v", "assign", "v", (1, Star(1, 0))),
    ("y, *z, x = v", "assign", "v", (-1,)),
    ("*x, y = v", "assign", "v", (Star(0, 1),)),
    ("y, *z, x = 1, 2, 3, 4", "assign", "4", ()),
    ("y, x = *v, 1", "assign", "(*v, 1)", (1,)),
    ("y, (x, z) = 1, v", "assign", "v", (0,)),
    ("x += v", "augmented", "v", ()),
    ("x: int = v", "annotated", "v", ()),
    ("for x in v: pass", "loop", "v", (Step.ELEMENT,)),
    ("for x, y in v: pass", "loop", "v", (Step.ELEMENT, 0)),
    ("for i, x in enumerate(v): pass", "loop", "v", (Step.ELEMENT,)),
    ("for i, x in enumerate(v, start=1): pass", "loop", "v", (Step.ELEMENT,)),
    ("for x, y in enumerate(v): pass", "loop", "enumerate(v)", (Step.ELEMENT, 0)),
    ("for y, x in zip(a, v): pass", "loop", "v", (Step.ELEMENT,)),
    ("for i, (y, (x, z)) in enumerate(zip(a, v)): pass", "loop", "v", (Step.ELEMENT, 0)),
    ("for y, x in zip(*v): pass", "loop", "zip(*v)", (Step.ELEMENT, 1)),
    ("for k, x in v.items(): pass", "loop", "v", (Step.VALUE,)),
    ("for x, k in v.items(): pass", "loop", "v", (Step.KEY,)),
    ("for x in v.values(): pass", "loop", "v", (Step.VALUE,)),
    ("for x in v.keys(): pass", "loop", "v", (Step.KEY,)),
    ("for x in reversed(sorted(v, key=len)): pass", "loop", "v", (Step.ELEMENT,)),
    ("async def f():\n  async for x in v: pass", "loop", "v", (Step.ELEMENT,)),
    ("with v as x: pass", "with", "v", ()),
    ("with v as (y, x): pass", "with", "v", (1,)),
    ("def f(y, /, x=1): pass", "parameter", None, ()),
    ("lambda *x: 1", "parameter", None, ()),
    ("print(x := v)", "walrus", "v", ()),
    ("[1 for y, x in v]", "comprehension", "v", (Step.ELEMENT, 1)),
    ("{1 for i, x in enumerate(v)}", "comprehension", "v", (Step.ELEMENT,)),
    ("import x.y", "import", None, ()),
    ("from y import z as x", "import", None, ()),
    ("def x(): pass", "function", None, ()),
    ("class x: pass", "class", None, ()),
    ("try: pass\nexcept v as x: pass", "except", "v", ()),
    ("del x", "delete", None, ()),
    ("match v:\n  case [y, x]: pass", "match", "v", (1,)),
    ("match v:\n  case [*x, y]: pass", "match", "v", (Star(0, 1),)),
    ("match v:\n  case {'k': [x]}: pass", "match", "v", ("k", 0)),
    ("match v:\n  case P(x, q=1): pass", "match", "v", (Member(None),)),
    ("match v:\n  case P(q=x): pass", "match", "v", (Member("q"),)),
    ("match a, v:\n  case y, x: pass", "match", "v", ()),
    ("x[k] = v", "item", "v", ()),
    ("x[k], y = 1, v", "item", "1", ()),
    ("x[k] += v", "item", "v", ()),
    ("x.append(v)", "put", "v", ()),
    ("x.insert(0, v)", "put", "v", ()),
    ("x.setdefault('k', v)", "put", "v", ()),
    ("x.extend(v)", "put", "v", (Step.ELEMENT,)),
    ("x.update(v)", "put", "v", (Step.ELEMENT,)),
    ("x.update(k=v)", "put", "v", ()),
    ("x['k'].append(v)", "put", "v", ()),
    ("def f():\n  global x\n  x = v", "free", "v", ()),
]


@pytest.mark.parametrize("source, kind, value, path", DEFINITIONS)
def test_definition(source, kind, value, path):
    tree = ast.parse(source)
    flow = Flow(tree)
    scopes = [flow, *(flow.of(node) for node in ast.walk(tree) if isinstance(node, (ast.AsyncFunctionDef, ast.Lambda)))]
    if kind == "parameter" and not isinstance(tree.body[0], ast.Expr):
        scopes.append(flow.of(tree.body[0]))
    found = next(one for scope in scopes for one in scope.definitions("x"))
    assert (found.kind, found.value and ast.unparse(found.value), found.path) == (kind, value, path)


SELECTED = [
    ("(a, b)", (1,), "b"),
    ("[a, (b, c)]", (1, 0), "b"),
    ("{'k': a, 'l': b}", ("l",), "b"),
    ("{'k': a, 'k': b}", ("k",), "b"),
    ("{'k': a, **m}", ("k",), "m['k'] a"),
    ("{**m, 'k': a}", ("k",), "a"),
    ("{'k': a, n: b}", ("k",), "b a"),
    ("dict(k=a, l=b)", ("k",), "a"),
    ("dict(m, k=a)", ("z",), "m['z']"),
    ("a if c else b", (), "a b"),
    ("(a, b) if c else d", (0,), "a d[0]"),
    ("(y := (a, b))", (1,), "b"),
    ("a or b", (), "a b"),
    ("[a, *m, b]", (0,), "a"),
    ("[a, *m, b]", (-1,), "b"),
    ("[a, *m, b]", (1,), "m[*] b"),
    ("[a, *m]", (Step.ELEMENT,), "a m[*]"),
    ("(a, b, c, d)", (Star(1, 1), Step.ELEMENT), "b c"),
    ("(a, b, c, d)", (Star(1, 0), 0), "b"),
    ("{'k': a, 'l': b}", (Step.VALUE,), "a b"),
    ("{'k': a}", (Step.KEY,), "'k'"),
    ("zip(a, b)", (Step.ELEMENT, 1), "b[*]"),
    ("enumerate([a, b])", (Step.ELEMENT, 1), "a b"),
    ("{'k': (a, b)}.items()", (Step.ELEMENT, 1, 0), "a"),
    ("(a, b)", (5,), ""),
    ("f(a)", (0,), "f(a)[0]"),
]


@pytest.mark.parametrize("source, path, expected", SELECTED)
def test_select(source, path, expected):
    parts = select(ast.parse(source, mode="eval").body, path)
    found = [
        ast.unparse(part.value) + "".join("[*]" if s is Step.ELEMENT else f"[{s!r}]" for s in part.path)
        for part in parts
    ]
    assert found == expected.split()
