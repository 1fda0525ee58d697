"""@simulated(devices=2): the test function runs in a process of its own, on a machine with simulated devices.

The process is forked from the runner's server, so that it costs a fraction of a second; a machine, once simulated,
stays for the life of a process, hence one process a test. Asserts show their operands as under pytest.
"""

import ast
import functools
import importlib.util
import inspect
import os
import sys

import pytest


def simulated(devices=1, deadline=60.0, env=None, **options):
    """Options are those of locus.simulate; devices=None: no simulation, but a process of its own all the same."""

    def decorate(function):
        machine = None if devices is None else dict(devices=devices, **options)
        file = inspect.getsourcefile(function)

        @functools.wraps(function)
        def test(program, **parameters):
            result = program.call(
                "simulated:run_inside",
                file,
                function.__qualname__,
                parameters,
                simulate=machine,
                env=env,
                deadline=deadline,
            )
            if result.code or result.timed_out:
                pytest.fail(result.describe(), pytrace=False)

        own = list(inspect.signature(function).parameters.values())
        test.__signature__ = inspect.Signature(
            [inspect.Parameter("program", inspect.Parameter.POSITIONAL_OR_KEYWORD), *own]
        )
        del test.__wrapped__
        test.inside = function
        return test

    return decorate


def run_inside(file, name, parameters):
    """In the child: loads the test's file again and calls the function itself."""
    from _pytest.assertion.rewrite import rewrite_asserts

    with open(file, "rb") as opened:
        source = opened.read()
    tree = ast.parse(source, file)
    rewrite_asserts(tree, source)
    module_name = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_loader(module_name, loader=None)
    module = importlib.util.module_from_spec(spec)
    module.__file__ = file
    sys.modules[module_name] = module
    exec(compile(tree, file, "exec"), module.__dict__)
    getattr(module, name).inside(**parameters)
