"""Random one-line tensor programs with operands on random devices, and which of them PyTorch refuses.

Run as a script under simulated devices, it tries each line of a file by itself and prints a verdict for each.
"""

from __future__ import annotations

import random
import sys

DEVICES = ("cpu", "cuda:0", "cuda:1")

# {f}: 3×3 floats, {v}: 3 floats, {s}: a single float, {i}: 3 indices, {m}: a 3×3 mask; each on a device of its own.
TEMPLATES = (
    "{f} + {f}",
    "{f} * {s}",
    "{s} - {f}",
    "{f} / {v}",
    "{s} + {s}",
    "{f}.add_({f})",
    "{f}.mul_({s})",
    "{s}.add_({s})",
    "torch.addcmul({f}, {f}, {f})",
    "torch.maximum({f}, {s})",
    "torch.lerp({f}, {f}, 0.5)",
    "torch.atan2({f}, {v})",
    "{f} @ {f}",
    "{f} @ {v}",
    "torch.addmm({f}, {f}, {f})",
    "torch.bmm({f}[None], {f}[None])",
    "torch.dot({v}, {v})",
    "torch.einsum('ij,jk->ik', {f}, {f})",
    "torch.outer({v}, {v})",
    "torch.linalg.solve({f} + 9 * torch.eye(3).to({f}), {f})",
    "torch.cat([{f}, {f}])",
    "torch.stack([{v}, {v}, {v}])",
    "torch.stack([{s}, {s}])",
    "torch.hstack([{v}, {v}])",
    "{f}[{i}]",
    "{f}[{i}, {i}]",
    "{f}[:, {i}]",
    "{f}[{m}]",
    "{f}.index_select(0, {i})",
    "{f}.gather(0, {i}[None])",
    "{f}.index_put_(({i},), {s})",
    "{f}.index_put_(({i}, {i}), {v})",
    "{f}.index_add_(0, {i}, {f})",
    "{f}.take({i})",
    "{f}.scatter_(0, {i}[None], {f})",
    "{f}.scatter_add_(0, {i}[None], {f})",
    "{f}.index_fill_(0, {i}, 2.0)",
    "{f}.masked_fill({m}, 1.0)",
    "{f}.masked_fill({m}, {s})",
    "{f}.masked_select({m})",
    "torch.where({m}, {f}, {f})",
    "torch.where({m}, {f}, 0.0)",
    "torch.where({m}, {f}, {s})",
    "{f}.copy_({f})",
    "{f}.where({m}, {f})",
    "F.linear({f}, {f})",
    "F.linear({f}, {f}, {v})",
    "F.embedding({i}, {f})",
    "F.mse_loss({f}, {f})",
    "F.l1_loss({v}, {v})",
    "F.cross_entropy({f}, {i})",
    "F.cross_entropy({f}, {i}, weight={v})",
    "F.binary_cross_entropy_with_logits({f}, {f})",
    "F.layer_norm({f}, (3,), {v}, {v})",
    "F.conv1d({f}[None], {f}[None])",
    "F.cosine_similarity({f}, {f})",
    "F.batch_norm({f}, {v}, {v}, training=True)",
    "F.prelu({f}, {v})",
    "F.one_hot({i}, 3) + {f}",
    "F.kl_div({f}, {f})",
    "torch.cdist({f}, {f})",
    "torch.bucketize({f}, {v})",
    "torch.isin({i}, {i})",
    "torch.equal({f}, {f})",
    "torch.bincount({i}, weights={v})",
    "torch.repeat_interleave({f}, {i}, dim=0)",
    "torch.logaddexp({v}, {v})",
    "{f}.to({f})",
    "{f}.to({f}.device) + {f}",
    "{f}.type_as({f}) + {v}",
    "{f}.new_zeros(3) + {v}",
    "torch.zeros_like({f}) + {f}",
    "torch._foreach_add([{f}, {v}], [{f}, {v}])",
    "torch.allclose({f}, {f})",
    "{f}.clamp({s}, {s})",
    "{f} == {f}",
    "{f} ** {s}",
)


def operand(kind: str, rng: random.Random, usual: str) -> str:
    device = usual if rng.random() < 0.6 else rng.choice(DEVICES)
    at = f'device="{device}"'
    return {
        "f": f"torch.full((3, 3), 0.5, {at})",
        "v": f"torch.full((3,), 0.5, {at})",
        "s": f"torch.tensor(0.5, {at})",
        "i": f"torch.tensor([0, 2, 1], {at})",
        "m": f"torch.ones(3, 3, dtype=torch.bool, {at})",
    }[kind]


def statements(seed: int, count: int) -> list[str]:
    """That many random lines, none depending on another."""
    rng = random.Random(seed)
    result = []
    for _ in range(count):
        template, usual = rng.choice(TEMPLATES), rng.choice(DEVICES)
        text, position = "", 0
        while (at := template.find("{", position)) >= 0:
            text += template[position:at] + operand(template[at + 1], rng, usual)
            position = at + 3
        result.append(f"r = {text}{template[position:]}")
    return result


HEADER = "import torch\nimport torch.nn.functional as F\n"


def try_each(path: str) -> None:
    """Prints, for each line: fine, or the first line of its error."""
    scope: dict = {}
    exec(HEADER, scope)
    with open(path) as file:
        for line in file.read().splitlines():
            try:
                exec(line, scope)
                print("fine")
            except Exception as error:
                print(f"{type(error).__name__}: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    try_each(sys.argv[1])
