"""A literal device where a program also runs without a card: `"cuda" if cuda else "cpu"`, as it asks elsewhere.

Reads trees; knows nothing of frames.
"""

from __future__ import annotations

import ast

from locus.fixing.name_scopes import bound_before
from locus.program import bindings, source


def write(file: source.Source, node: ast.AST, scope: ast.AST, device: str) -> str:
    """The device as a literal; under the same condition where the file asks whether there is a card: an edit never
    makes a program fail on a machine without one."""
    literal = file.once(_literals).get(device, f'"{device}"')
    if not device.startswith("cuda"):
        return literal
    asked = file.once(_asked)
    if asked is None:
        return literal
    names, words = asked
    for name, around in names:
        local = around is scope and bound_before(file, scope, name, node)
        shared = around is file.tree and scope is not file.tree and not bindings.binds(scope, name)
        if local or shared:
            return f'{literal} if {name} else "cpu"'
    return f'{literal} if {words} else "cpu"'


def _literals(file: source.Source) -> dict[str, str]:
    """How a file writes the first card where it writes it as a literal: "cuda" or "cuda:0"."""
    plain, numbered = '"cuda"' in file.text or "'cuda'" in file.text, "cuda:0" in file.text
    return {"cuda:0": '"cuda"'} if plain and not numbered else {}


def _asked(file: source.Source) -> tuple[list[tuple[str, ast.AST]], str] | None:
    """The variables that say whether there is a card, each with the scope that binds it, and the question itself; None
    where a file never asks, or goes no further without one."""
    calls = [c for c in file.calls(file.tree, "is_available") if ast.unparse(c.func).endswith("cuda.is_available")]
    if not calls or any(isinstance(file.parent(c), ast.Assert) for c in calls):
        return None
    words = ast.unparse(calls[0])
    names: list[tuple[str, ast.AST]] = []
    for call in calls:
        kept = file.parent(call)
        if isinstance(kept, ast.Assign) and len(kept.targets) == 1 and isinstance(kept.targets[0], ast.Name):
            around = next((a for a in file.ancestors(kept) if isinstance(a, source.Function)), file.tree)
            if len(file.find(around, ("store", kept.targets[0].id))) == 1:
                names.append((kept.targets[0].id, around))
    return names, words
