"""Calls whose result goes where another tensor is: `zeros_like(other)`, `x.to(other.device)`, `one_hot(labels)`,
`sparse_coo_tensor(index, values)`.

Reads trees; runs nothing.
"""

from __future__ import annotations

import ast

from locus.program import bindings, histories, links, makers, source


def followed(call: ast.Call) -> list[ast.expr]:
    """The expressions whose device a call's result gets, as far as the call itself says."""
    name = histories.called_name(call)
    given = [k.value for k in call.keywords if k.arg == "device"] + (call.args[:1] if name == "to" else [])
    led = [e.value for e in given if isinstance(e, ast.Attribute) and e.attr == "device"]
    if given:
        return led
    if name.endswith("_like") or name in ("type_as", "one_hot"):
        led += call.args[:1]
    elif name.startswith("new_") and isinstance(call.func, ast.Attribute):
        led.append(call.func.value)
    elif name == "sparse_coo_tensor":
        led += [k.value for k in call.keywords if k.arg == "values"] or call.args[1:2]
    return led


def read_in(node: ast.expr) -> list[ast.expr]:
    """An expression, and what it is computed of: `labels + 1` and `labels`."""
    return [each for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript))] or [node]


def maker_of(file: source.Source, call: ast.Call, scope: ast.AST) -> ast.Call | None:
    """`torch.arange(n)` of `t = torch.arange(n) / 2`, for `torch.ones(3, device=t.device)` in the same function: the
    one call that made what is followed, where it says no device itself."""
    led = followed(call)
    flow = links.flow_of(file, scope)
    if len(led) != 1 or not isinstance(led[0], ast.Name) or flow is None:
        return None
    reaching = flow.reaching(led[0])
    statements = [each.node for each in reaching if each.kind == "assign"]
    if len(reaching) != 1 or len(statements) != 1:
        return None
    bound = [value for target, value in bindings.pairs(statements[0] if isinstance(statements[0], ast.stmt) else None)
             if isinstance(target, ast.Name) and target.id == led[0].id]  # fmt: skip
    made = [n for value in bound for n in ast.walk(value) if isinstance(n, ast.Call) and makers.makes_tensor(n)]
    if len(made) != 1:
        return None
    if followed(made[0]):
        return maker_of(file, made[0], scope)
    return None if histories.names_device(made[0]) else made[0]
