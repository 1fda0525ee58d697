"""Makes cases from real mismatches of a program, as the bridge would: an operator mode that sees mixed devices.

Stands in for the check door in tests of the facts alone, origins included. Its own frames pass for Locus's.
"""

import os
import sys
import types

import locus

_CODE = '''
import sys
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from locus.blame import facts
from locus.program import histories, places

frames_here = places.frames_here

def without_mode():
    """Without the frames that a mode adds and the bridge does not: those of the decorator around it."""
    frames = frames_here()
    while frames and frames[0].f_code.co_filename.endswith(("eval_frame.py", "_compile.py", "_python_dispatch.py")):
        frames = frames[1:]
    return frames

class Probe(TorchDispatchMode):
    def __init__(self, origins):
        super().__init__()
        self.cases, self.chains, self.sites = [], {}, [None]
        places.frames_here = without_mode
        self.origins = origins
        bridge = histories.bridge()
        if bridge is not None and origins:
            bridge.origin_chain = lambda tensor: self.chains.get(tensor.untyped_storage()._cdata, [])
            bridge.site_location = lambda site: self.sites[site]
            bridge.mark_loaded = lambda tensors, path: self.mark(tensors, "torch.load")
            bridge.mark_received = lambda tensors: self.mark(tensors, "DataLoader")

    def mark(self, tensors, what):
        site = self.site()
        for tensor in tensors:
            step = dict(op=what, site=site, device=str(tensor.device), placement="foreign")
            self.chains[tensor.untyped_storage()._cdata] = [step]

    def site(self):
        for frame in places.user_frames(without_mode())[:1]:
            code = frame.f_code
            line, end_line, column, end_column = places.positions(code, frame.f_lasti)
            self.sites.append((code.co_filename, line, end_line, column, end_column, code.co_qualname))
            return len(self.sites) - 1
        return 0

    def remember(self, func, operands, result):
        if not isinstance(result, torch.Tensor) or not self.origins:
            return
        key = result.untyped_storage()._cdata
        if any(o["tensor"].untyped_storage()._cdata == key for o in operands):
            return
        before = self.chains.get(operands[0]["tensor"].untyped_storage()._cdata, []) if operands else []
        placement = "derived" if operands else "default"
        if "copy" in func._schema.name and operands and operands[0]["tensor"].device != result.device:
            placement = "moved"
        step = dict(op=func._schema.name, site=self.site(), device=str(result.device), placement=placement)
        self.chains[key] = [step, *before][:6]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        name = schema.name.partition("::")[2]
        operands = []
        values = list(args) + [kwargs.get(a.name) for a in schema.arguments[len(args):]]
        for position, (argument, value) in enumerate(zip(schema.arguments, values)):
            items = value if isinstance(value, (list, tuple)) else [value]
            for index, item in enumerate(items):
                if isinstance(item, torch.Tensor):
                    operands.append(dict(argument=argument.name, position=position, tensor=item, written=False,
                                         index=index if isinstance(value, (list, tuple)) else -1, rule="same"))
        devices = [str(o["tensor"].device) for o in operands]
        device = next((d for d in devices if d.startswith("cuda")), "cpu")
        for o in operands:
            o["odd"] = str(o["tensor"].device) != device and o["tensor"].dim() > 0
            if name == "index" and o["position"] == 1:
                o["rule"], o["odd"] = "index", str(o["tensor"].device) not in ("cpu", devices[0])
            elif name == "index":
                o["odd"] = False
            if name == "_pack_padded_sequence" and o["position"] == 1:
                o["rule"], o["odd"] = "cpu", str(o["tensor"].device) != "cpu"
        if name in ("copy_", "_to_copy", "set_", "detach") or not any(o["odd"] for o in operands):
            result = func(*args, **kwargs)
            self.remember(func, operands, result)
            return result
        raw = dict(kind="operator", overload=schema.name + ("." + schema.overload_name if schema.overload_name else ""),
                   error="Expected all tensors to be on the same device", device=device, in_backward=False,
                   forward_site=0, site=0, step=0, operands=operands)
        self.cases.append(facts.build_case(raw))
        to = "cpu" if name in ("_pack_padded_sequence", "index") else device
        def move(value):
            if isinstance(value, torch.Tensor):
                return value.to(to)
            if isinstance(value, (list, tuple)):
                return type(value)(move(v) for v in value)
            return value
        return func(*[move(a) for a in args], **{k: move(v) for k, v in kwargs.items()})
'''


def probe(origins=True):
    """A mode whose `cases` fill up while the program under it runs."""

    from locus.watch import hooks

    module = types.ModuleType("locus_probe")
    file = os.path.join(os.path.dirname(os.path.abspath(locus.__file__)), "_probe.py")
    sys.modules[module.__name__] = module
    exec(compile(_CODE, file, "exec"), module.__dict__)
    hooks.install_hooks()
    return module.Probe(origins)


def cases_of(text, folder, name="program.py", origins=True):
    """The cases of a program, run as a script of its own."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    mode = probe(origins)
    main = types.ModuleType("__main__")
    main.__file__ = path
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        with mode:
            exec(compile(text, path, "exec"), main.__dict__)
    finally:
        sys.modules["__main__"] = before
    from locus import faults

    assert not faults.noted, faults.noted
    return mode.cases


def odd_operands(text, folder, **options):
    """The odd operands of a program's cases, each with its case."""
    cases = cases_of(text, folder, **options)
    return [(case, operand) for case in cases for operand in case["operands"] if operand["odd"]]
