"""Types: the package has them, the stub of the C++ side names what is there, public names are annotated."""

import ast
import importlib.util
import inspect
from pathlib import Path

import locus

FOLDER = Path(locus.__file__).parent


def stub_names():
    tree = ast.parse((FOLDER / "_bridge.pyi").read_text())
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [*functions, *(n.target.id for n in tree.body if isinstance(n, ast.AnnAssign))]


def test_the_package_is_typed():
    assert (FOLDER / "py.typed").exists() and importlib.util.find_spec("locus") is not None


def test_the_stub_names_what_the_bridge_has(program):
    names = [name for name in stub_names() if name != "__getattr__"]
    assert len(names) > 30
    text = f"from locus._load import load_bridge\nbridge = load_bridge()\n\
missing = [n for n in {names!r} if not hasattr(bridge, n)]\nassert not missing, missing"
    program.run_source(text).ok()


def test_public_functions_are_annotated_and_documented():
    for name in locus.__all__:
        value = getattr(locus, name)
        if inspect.isfunction(value):
            assert value.__doc__, name
            signature = inspect.signature(value)
            assert signature.return_annotation is not inspect.Signature.empty, name
            for parameter in signature.parameters.values():
                assert parameter.annotation is not inspect.Parameter.empty, (name, parameter.name)
