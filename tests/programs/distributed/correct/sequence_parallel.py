# finds: nothing
"""Tensor and sequence parallelism as language models have it, with PyTorch's own norms: the same loss, step by step, as
the model in one piece."""

import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.norm = norm(width)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, words=24, width=16):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width, nn.RMSNorm), Block(width, nn.LayerNorm)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def spread(model, mesh):
    outside = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    inside = {
        "norm": SequenceParallel(),
        "gate": ColwiseParallel(input_layouts=Shard(1)),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    parallelize_module(model, mesh, outside)
    for block in model.blocks:
        parallelize_module(module=block, device_mesh=mesh, parallelize_plan=inside)
    return model


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for tokens in batches:
        logits = model(tokens)
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    torch.manual_seed(0)
    whole = Model().cuda()
    parts = spread(copy.deepcopy(whole), mesh)
    batches = [torch.arange(16, device="cuda").view(2, 8) + step for step in range(3)]
    expected, losses = train(whole, batches), train(parts, batches)
    assert max(abs(a - b) for a, b in zip(expected, losses)) < 1e-4, (expected, losses)
    assert losses[-1] < losses[0]
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
