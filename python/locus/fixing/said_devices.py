"""What a program itself says for devices: what it gives as such, and how it puts things on the first card.

Reads trees; knows nothing of frames.
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from locus.program import source

Said = ast.Name | ast.Attribute | ast.Subscript | ast.Call


def devices_said(scope: ast.AST) -> list[Said]:
    """What a function gives as devices, in the order of the text: `device`, `cfg.device`, `cfg["device"]`,
    `devices[-1]`, `get_device()`."""
    found: list[Said] = []
    for node in ast.walk(scope):
        if isinstance(node, ast.Call):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "device"]
            is_move = isinstance(node.func, ast.Attribute) and node.func.attr == "to" and len(node.args) == 1
            given += node.args[:1] if is_move else []
            found += [each for each in given if _may_be_device(each)]
    return found


def _may_be_device(node: ast.expr) -> TypeGuard[Said]:
    """Not a type: `torch.float16`, `x.dtype`, `dtype`."""
    if isinstance(node, ast.Call) and (node.args or node.keywords):
        return False
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.UnaryOp)):
        return False
    words = ast.unparse(node)
    is_said = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
    return is_said and not words.startswith(("torch.", "th.")) and "dtype" not in words


def move_to(file: source.Source, words: str) -> str:
    """`.to(device)`; `.cuda()` for a literal in a file that says the first card in no other way."""
    return ".cuda()" if words == '"cuda:0"' and file.once(_says_cuda_only) else f".to({words})"


def _says_cuda_only(file: source.Source) -> bool:
    """Whether a file has `.cuda()`, and no device by a name or as a literal."""
    calls = [c for c in file.calls(file.tree, "cuda") if isinstance(c.func, ast.Attribute) and not c.args]
    return bool(calls) and '"cuda' not in file.text and "'cuda" not in file.text and not devices_said(file.tree)
