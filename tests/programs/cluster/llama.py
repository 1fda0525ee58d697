"""Trains a Llama-3 on a cluster: replicated over `dp`, sharded over `shard` (fully_shard), split over `tp` (a tensor-parallel
plan with sequence parallelism), and cut into the stages of a pipeline over `pp`. Sizes by name; tokens are made up."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

SIZES = {  # dim, layers, heads, heads of keys and values, width of the feed-forward part, words
    "tiny": (64, 4, 8, 4, 128, 256),
    "8b": (4096, 32, 32, 8, 14336, 128256),
    "70b": (8192, 80, 64, 8, 28672, 128256),
    "405b": (16384, 126, 128, 8, 53248, 128256),
}


def rotate(x, cosines, sines):
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cosines - odd * sines, even * sines + odd * cosines), -1).flatten(-2)


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5)
        return (x.float() * scale).type_as(x) * self.weight


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.head = dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.head, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.head, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cosines, sines):
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, -1, self.head) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.w1 = nn.Linear(dim, width, bias=False)
        self.w2 = nn.Linear(width, dim, bias=False)
        self.w3 = nn.Linear(dim, width, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, dim, heads, kv_heads, width):
        super().__init__()
        self.attention_norm = Norm(dim)
        self.attention = Attention(dim, heads, kv_heads)
        self.ffn_norm = Norm(dim)
        self.feed_forward = FeedForward(dim, width)

    def forward(self, x, cosines, sines):
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """The whole model, or the layers of one stage of a pipeline."""

    def __init__(self, size, length, stage=0, stages=1):
        super().__init__()
        dim, layers, heads, kv_heads, width, words = SIZES[size]
        mine = range(layers * stage // stages, layers * (stage + 1) // stages)
        self.tok_embeddings = nn.Embedding(words, dim) if stage == 0 else None
        self.layers = nn.ModuleDict({str(i): Block(dim, heads, kv_heads, width) for i in mine})
        self.norm = Norm(dim) if stage == stages - 1 else None
        self.output = nn.Linear(dim, words, bias=False) if stage == stages - 1 else None
        self.length, self.head = length, dim // heads

    def angles(self, device):
        steps = torch.arange(self.length, device=device, dtype=torch.float32)
        speeds = 1.0 / 500000.0 ** (torch.arange(0, self.head, 2, device=device).float() / self.head)
        table = torch.outer(steps, speeds)[:, None, :]
        return table.cos().to(torch.bfloat16), table.sin().to(torch.bfloat16)

    def forward(self, x):
        cosines, sines = self.angles(x.device)
        if self.tok_embeddings is not None:
            x = self.tok_embeddings(x)
        for layer in self.layers.values():
            x = checkpoint(layer, x, cosines, sines, use_reentrant=False) if self.training else layer(x, cosines, sines)
        if self.norm is not None:
            x = self.output(self.norm(x))
        return x


def split_over_tensors(model, mesh):
    """A tensor-parallel plan; between the blocks, the sequence is split."""
    plan = {}
    if model.tok_embeddings is not None:
        plan["tok_embeddings"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    if model.norm is not None:
        plan["norm"] = SequenceParallel()
        plan["output"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    parallelize_module(model, mesh, plan)
    for block in model.layers.values():
        parallelize_module(
            block,
            mesh,
            {
                "attention_norm": SequenceParallel(),
                "attention": PrepareModuleInput(
                    input_layouts=(Shard(1), None, None), desired_input_layouts=(Replicate(), None, None)
                ),
                "attention.wq": ColwiseParallel(),
                "attention.wk": ColwiseParallel(),
                "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
                "ffn_norm": SequenceParallel(),
                "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
                "feed_forward.w3": ColwiseParallel(),
            },
        )


def shard(model, mesh):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.layers.values():
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="70b")
    for name, default in (("pp", 1), ("dp", 16), ("shard", 8), ("tp", 8), ("length", 8192), ("batch", 1), ("micro", 2), ("steps", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (args.pp, args.dp, args.shard, args.tp), mesh_dim_names=("pp", "dp", "shard", "tp"))
    stage = mesh.get_local_rank("pp")

    with torch.device("meta"):
        model = Llama(args.size, args.length, stage, args.pp)
    split_over_tensors(model, mesh["tp"])
    shard(model, mesh["dp", "shard"])
    model.to_empty(device=device)
    with torch.no_grad():
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    words = SIZES[args.size][-1]
    micro = args.micro * args.pp if args.pp > 1 else 1
    schedule = None
    if args.pp > 1:
        pipeline = PipelineStage(model, stage, args.pp, device, group=mesh.get_group("pp"))
        schedule = Schedule1F1B(pipeline, micro, loss_fn=loss_of)
    for step in range(args.steps):
        tokens = torch.randint(words, (args.batch * micro, args.length + 1), device=device)
        inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        if schedule is None:
            loss = loss_of(model(inputs), targets)
            loss.backward()
        elif stage == 0:
            schedule.step(inputs)
        elif stage == args.pp - 1:
            schedule.step(target=targets)
        else:
            schedule.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step} done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
