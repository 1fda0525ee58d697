"""The types of the C++ side say what the built bridge has: every name, both ways, and every member of its classes."""

import ast
import datetime
import pathlib

from locus._load import load_bridge

import locus

FOLDER = pathlib.Path(locus.__file__).parent


def _names(body):
    names = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets}
    return names


def _public(names):
    return {name for name in names if not name.startswith("_")}


def _bridge():
    bridge = load_bridge()
    bridge.define_process_group(lambda store, rank, size, timeout: None)
    return bridge


def _stub():
    """The stub, with the files that are parts of it: what they define it takes in at the same names."""
    files = [FOLDER / "_bridge.pyi", *sorted(FOLDER.glob("_bridge_*.pyi"))]
    whole, *parts = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    taken_in = {
        alias.name
        for node in whole.body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("locus._bridge_")
        for alias in node.names
        if alias.name == alias.asname
    }
    assert taken_in == {name for part in parts for name in _names(part.body)}
    whole.body.extend(node for part in parts for node in part.body)
    return whole


def test_every_name_of_the_bridge_has_a_type_and_no_other():
    assert _public(_names(_stub().body)) - {"Bridge"} == _public(dir(_bridge()))


def test_the_module_as_a_type_has_the_same_names():
    classes = {node.name: node for node in _stub().body if isinstance(node, ast.ClassDef)}
    assert _names(classes["Bridge"].body) == _public(dir(_bridge()))


def test_every_member_of_a_class_has_a_type_and_no_other():
    bridge = _bridge()
    classes = {node.name: node for node in _stub().body if isinstance(node, ast.ClassDef) and node.name != "Bridge"}
    for name, node in classes.items():
        own = {member for member in vars(getattr(bridge, name)) if not member.startswith(("__", "_pybind11"))}
        assert {member for member in _names(node.body) if not member.startswith("__")} == own, name


def test_nothing_is_left_open():
    names = {node.id for node in ast.walk(_stub()) if isinstance(node, ast.Name)}
    assert "Any" not in names and "__getattr__" not in _names(_stub().body)


def test_parameters_have_the_names_that_callers_may_use():
    """A parameter without a name in C++ is positional in the types, too."""
    bridge = _bridge()
    for node in _stub().body:
        if isinstance(node, ast.FunctionDef):
            first = getattr(bridge, node.name).__doc__.splitlines()[0]
            named = {argument.arg for argument in node.args.args}
            assert named == {name for name in named if f"{name}:" in first}, node.name
            assert len(node.args.posonlyargs) == first.count("arg"), first


def test_options_of_a_group_are_there():
    options = _bridge().ProcessGroupNCCL.Options(is_high_priority_stream=True)
    assert options.is_high_priority_stream and isinstance(options._timeout, datetime.timedelta)
