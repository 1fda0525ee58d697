# compare: exact
# devices: 1
"""Selective activation checkpointing, and checkpointing of what a card runs in one piece (RMS norms, recurrent
networks): each part is computed once more for a backward pass, and only once; the gradients are those without."""

import functools

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(16), nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)

    def forward(self, x):
        global runs
        runs += 1
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.rnn = nn.RMSNorm(16), nn.GRU(16, 16, batch_first=True)

    def forward(self, x):
        global runs
        runs += 1
        return self.rnn(self.norm(x)[None])[0][0]


def save_products(context, op, *arguments, **options):
    saved = op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


def gradients(make, around):
    global runs
    torch.manual_seed(0)
    runs, block = 0, make().to(device)
    x = torch.linspace(-1, 1, 64).view(4, 16).to(device).requires_grad_()
    loss = around(block, x).square().sum()
    loss.backward()
    return runs, [x.grad] + [p.grad for p in block.parameters()]


def plain(block, x):
    return block(x)


def selective(block, x):
    contexts = functools.partial(create_selective_checkpoint_contexts, save_products)
    return checkpoint(block, x, use_reentrant=False, context_fn=contexts)


def non_reentrant(block, x):
    return checkpoint(block, x, use_reentrant=False)


def on_the_host(block, x):
    with torch.autograd.graph.save_on_cpu():
        return block(x)


for make in (Block, Recurrent):
    _, expected = gradients(make, plain)
    # Of a recurrent network's products it gives other gradients, on the CPU as well.
    for around in (selective, non_reentrant, on_the_host)[make is Recurrent :]:
        count, actual = gradients(make, around)
        close = all(torch.allclose(one, other, atol=1e-6) for one, other in zip(actual, expected))
        print(make.__name__, around.__name__, count, close)

# A second derivative, through what was brought back.
block = Block().to(device)
x = torch.linspace(-1, 1, 64).view(4, 16).to(device).requires_grad_()
(slope,) = torch.autograd.grad(non_reentrant(block, x).square().sum(), x, create_graph=True)
(curve,) = torch.autograd.grad(slope.square().sum(), x)
y = x.detach().requires_grad_()
(plain_slope,) = torch.autograd.grad(block(y).square().sum(), y, create_graph=True)
(plain_curve,) = torch.autograd.grad(plain_slope.square().sum(), y)
print("second derivative", torch.allclose(curve, plain_curve, rtol=1e-4))
