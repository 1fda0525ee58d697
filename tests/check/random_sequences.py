"""Random programs of several statements, on the CPU and two cards, mostly right: arithmetic, views, in-place and out=
operators, lists, indexing, modules, optimizers, gradients, generators, autocast, threads of every kind.

Each leaves its values in `results`. With every device the CPU it says what they ought to be.
"""

from __future__ import annotations

import random

from random_programs import TEMPLATES

DEVICES = ("A", "B", "C")

HEADER = """\
import _thread, ctypes, os, threading, time
from concurrent.futures import ThreadPoolExecutor
import torch
import torch.nn.functional as F
from torch import nn
{devices}
torch.manual_seed({seed})
class Results(list):
    def append(self, value):
        super().append(value.detach().clone() if isinstance(value, torch.Tensor) else value)
results = Results()
"""
SIMULATED = 'A, B, C, KIND = "cuda:0", "cuda:1", "cpu", "cuda"'
ON_CPU = 'A = B = C = KIND = "cpu"'

EXPRESSIONS = (
    *TEMPLATES,
    "{f}.T + {f}", "{f}[0] * {v}", "{f}.view(9)[:3] + {v}", "{f}[:, 1:] @ {f}[1:]", "{f}.diagonal() - {v}",
    "{f}.expand(2, 3, 3) + {f}", "{v}.unsqueeze(1) * {f}", "{f}.flatten().narrow(0, 2, 3) + {v}", "{f}.T.add_({f})",
    "{f}[0].mul_({s})", "{f}.fill_diagonal_(1.0).add_({v})", "{v}.unsqueeze(0).sub_({v})",
    "torch.cat([{f}, {f}, {f}], 1)", "torch.stack([{f}, {f}]).sum(0)", "torch.vstack([{v}, {f}])",
    "torch.block_diag({f}, {f})", "torch.chunk({f}, 3)[0] + {v}",
    "torch._foreach_mul([{f}, {v}], 2.0)", "torch._foreach_add([{f}, {f}], [{f}, {f}], alpha=2)",
    "torch._foreach_addcmul([{v}], [{v}], [{v}])", "torch._foreach_norm([{f}, {v}])",
    "torch.add({f}, {f}, out={o})", "torch.mm({f}, {f}, out={o})", "torch.cat([{v}[None], {v}[None]], out={o})",
    "torch.maximum({f}, {f}, out={o})", "torch.sum({f}, 0, out={o})", "torch.clamp({f}, 0.1, 0.4, out={o})",
    "{f}[{i}, 0] + {v}", "{f}[{i}][:, {i}]", "{v}[{i}] * {s}", "torch.take_along_dim({f}, {i}[None], 0)",
    "torch.rand(3, 3, device={d}, generator={g}) + {f}", "torch.randn(3, generator={g}, device={d})",
    "torch.randperm(5, generator={g}, device={d})", "{f}.uniform_(generator={g})", "{f}.normal_(generator={g}) * {s}",
    "{f}.to({d}) @ {f}.to({d})", "{f}.cpu() + {v}.cpu()", "torch.tril({f}) + {f}", "{f}.softmax(-1) * {v}",
    "F.relu({f}).sum() + {s}", "torch.linspace(0, 1, 3, device={d}) * {v}", "torch.arange(3, device={d}) + {i}",
    "torch.full_like({f}, 2.0) - {f}", "{f}.new_ones(3) * {v}", "torch.tensordot({f}, {f}, 1)", "torch.kron({v}, {v})",
    "F.pad({f}, (1, 1)).sum() * {s}", "F.gelu({f} + {f})", "F.softplus({v}).dot({v})", "{f}.cumsum(0).sub({f})",
    "F.huber_loss({f}, {f})", "F.nll_loss(F.log_softmax({f}, 1), {i})", "F.margin_ranking_loss({v}, {v}, {v})",
    "F.scaled_dot_product_attention({f}[None], {f}[None], {f}[None])", "F.bilinear({f}, {f}, {f}[None])",
    "F.group_norm({f}[None], 3, {v}, {v})", "F.embedding_bag({i}[None], {f})", "F.cosine_embedding_loss({f}, {f}, {v})",
)  # fmt: skip

MODULES = (
    "nn.Linear(3, 3)", "nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))", "nn.LayerNorm(3)",
    "nn.BatchNorm1d(3)", "nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.LayerNorm(3))", "nn.PReLU(3)",
    "nn.Sequential(nn.Flatten(), nn.Linear(3, 3, bias=False))",
)  # fmt: skip
OPTIMIZERS = ("SGD({p}, lr=0.1)", "SGD({p}, lr=0.1, momentum=0.9)", "Adam({p}, lr=0.01)", "AdamW({p}, lr=0.01)")
THREADS = (
    "box.append(ThreadPoolExecutor(1).submit(task).result())",
    "t = threading.Thread(target=lambda: box.append(task())); t.start(); t.join()",
    """\
begun, number = threading.Event(), []
def alone():
    number.append(threading.get_native_id())
    begun.set()
    box.append(task())
_thread.start_new_thread(alone, ())
begun.wait()
while os.path.exists(f"/proc/self/task/{number[0]}"):  # until it has said what nobody caught, too
    time.sleep(0.001)""",
    """\
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def begin(_):
    box.append(task())
name = ctypes.c_ulong()
ctypes.CDLL(None).pthread_create(ctypes.byref(name), None, begin, None)
ctypes.CDLL(None).pthread_join(name, None)""",
)


class Writer:
    """Writes one program."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.known: dict[str, list[str]] = {}
        self.names = 0
        self.usual = self.rng.choice(("A", "A", "B", "C"))
        self.strays = self.rng.choice((0.0, 0.0, 0.04, 0.1, 0.3))
        """How often a tensor is made somewhere else."""
        self.exact = True

    def device(self) -> str:
        return self.rng.choice(DEVICES) if self.rng.random() < self.strays else self.usual

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def make(self, kind: str) -> str:
        number = self.rng.randrange(1, 9) / 8
        at = f"device={self.device()}"
        return {
            "f": f"(torch.arange(9.0, {at}).view(3, 3) / 8 + {number})",
            "v": f"(torch.arange(3.0, {at}) / 4 + {number})",
            "s": f"torch.tensor({number}, {at})",
            "i": f"torch.tensor([0, 2, 1], {at})",
            "m": f"(torch.arange(9, {at}).view(3, 3) % 2 == 0)",
            "o": f"torch.empty(0, {at})",
            "g": f"torch.Generator({self.device()}).manual_seed({self.rng.randrange(99)})",
            "d": self.device(),
        }[kind]

    def operand(self, kind: str) -> str:
        known = self.known.get(kind, [])
        if known and self.rng.random() < 0.5:
            return self.rng.choice(known)
        text = self.make(kind)
        if kind not in "fvsim" or self.rng.random() < 0.4:
            return text
        name = self.name()
        self.lines.append(f"{name} = {text}")
        self.known.setdefault(kind, []).append(name)
        return name

    def fill(self, template: str, operand=None) -> str:
        text, position = "", 0
        while (at := template.find("{", position)) >= 0:
            text += template[position:at] + (operand or self.operand)(template[at + 1])
            position = at + 3
        return text + template[position:]

    def expression(self) -> None:
        self.lines.append(f"results.append({self.fill(self.rng.choice(EXPRESSIONS))})")

    def assignment(self) -> None:
        target, value = self.operand("f"), self.operand(self.rng.choice("fvs"))
        place = self.rng.choice(("[:]", "[1:]", "[0]"))
        if value.startswith("x") and target.startswith("x"):
            shape = value if place == "[:]" else f"{value}[..., :1]" if value in self.known.get("v", []) else "1.5"
            self.lines.append(f"{target}{place} = {shape}")
            self.lines.append(f"results.append({target})")

    def thread(self) -> None:
        body = self.fill(self.rng.choice(EXPRESSIONS))
        self.lines += ["box = []", "def task():", f"    return {body}", *self.rng.choice(THREADS).splitlines()]
        self.lines.append("results += box")

    def gradient(self) -> None:
        """Its operands are its own: what is changed in place elsewhere has nothing to do with it."""
        w, loss = self.name(), self.name()
        body = self.rng.choice(
            ("{w} * {f}", "{f} @ {w}", "torch.cat([{w}, {f}])", "F.linear({f}, {w})", "torch.where({m}, {w}, {f})",
             "{w}[{i}] + {f}", "{w}.masked_fill({m}, 0.5) - {v}", "F.mse_loss({w}, {f})", "{w}.clone().mul_({f})",
             "torch.stack([{w}, {f}]).mean(0)", "F.cross_entropy({w}, {i})", "{w}.to({d}) + {f}.to({d})",
             "torch.addcmul({f}, {w}, {f})", "F.layer_norm({w}, (3,), {v}, {v})", "{w}.T @ {v}", "{w}.exp() / {s}")
        )  # fmt: skip
        self.lines.append(f"{w} = {self.make('f')}.requires_grad_()")
        fill = lambda kind: w if kind == "w" else self.make(kind)  # noqa: E731
        self.lines.append(f"{loss} = ({self.fill(body, fill)}).sum()")
        if self.rng.random() < 0.2:
            self.lines.append(f"{loss} = {loss} * {self.make('s')}")
        if self.rng.random() < 0.2:
            self.lines.append(f"results += torch.autograd.grad({loss}, {w}, {self.make('s')})")
        else:
            self.lines.append(f"{loss}.backward()\nresults.append({w}.grad)")

    def module(self) -> None:
        self.exact = False  # norms and fused optimizers add in another order
        layer = self.name()
        self.lines.append(f"{layer} = {self.rng.choice(MODULES)}.to({self.device()})")
        if self.rng.random() < 0.4:
            self.lines.append(f"with torch.no_grad():\n    results.append({layer}({self.operand('f')}))")
            return
        optimizer, loss = self.name(), self.name()
        made = self.rng.choice(OPTIMIZERS).replace("{p}", f"{layer}.parameters()")
        self.lines.append(f"{optimizer} = torch.optim.{made}")
        for _ in range(self.rng.choice((1, 2))):
            self.lines.append(f"{loss} = F.mse_loss({layer}({self.make('f')}), {self.make('f')})")
            self.lines.append(f"{optimizer}.zero_grad()\n{loss}.backward()\n{optimizer}.step()")
        self.lines.append(f"results += [p.detach() for p in {layer}.parameters()]")

    def autocast(self) -> None:
        self.exact = False
        body = self.fill(self.rng.choice(("{f} @ {f}", "F.linear({f}, {f}, {v})", "torch.addmm({f}, {f}, {f})")))
        self.lines.append(f"with torch.autocast(KIND, dtype=torch.bfloat16):\n    results.append(({body}).float())")

    def no_grad(self) -> None:
        body = self.fill(
            self.rng.choice(("{f}.add_({f})", "{f}.mul_({s})", "{f}.copy_({f})", "{v}.addcmul_({v}, {v})"))
        )
        self.lines.append(f"with torch.no_grad():\n    results.append({body})")

    def text(self) -> str:
        kinds = (self.expression,) * 5 + (self.thread, self.gradient, self.gradient, self.module, self.autocast,
                                          self.no_grad, self.assignment)  # fmt: skip
        for _ in range(self.rng.randint(2, 6)):
            self.rng.choice(kinds)()
        return "\n".join(self.lines) + "\n"


def write(seed: int) -> tuple[str, str, bool]:
    """(the program, the same on the CPU alone, whether their values are equal to the bit)."""
    writer = Writer(seed)
    body = writer.text()
    head = [HEADER.format(devices=devices, seed=seed) for devices in (SIMULATED, ON_CPU)]
    return head[0] + body, head[1] + body, writer.exact
