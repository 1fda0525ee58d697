"""What Locus costs on a real GPU: GPT-2 124M in bfloat16, plain and watched, alternating in one process.

    python bench/gpu.py [--json FILE]

Needs a GPU. Prints ratios; the bars are those of docs/real-gpus.md.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary=50304, length=1024, layers=12, heads=12, width=768):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def make_step(batch: int, length: int):
    torch.manual_seed(0)
    model = GPT().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, 50304, (batch, length), device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def measure(step, ways: dict, rounds: int, steps: int) -> dict[str, list[float]]:
    """Milliseconds a step in each way, one after the other in every round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, switch in ways.items():
            switch(True)
            step()
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
            spent = (time.perf_counter() - began) / steps * 1e3
            switch(False)
            if number:  # the first round warms up
                times[name].append(spent)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench/gpu.py needs a GPU; this machine has none", file=sys.stderr)
        return 2
    import locus
    from locus import real, session

    shapes = {"16x1024": make_step(16, 1024), "2x256": make_step(2, 256)}
    results = {}

    def compare(title: str, other: str, switch, bars: dict[str, float]) -> None:
        for shape, step in shapes.items():
            times = measure(
                step, {"plain": lambda on: None, other: switch}, arguments.rounds, 6 if shape[0] == "1" else 20
            )
            plain, watched = statistics.median(times["plain"]), statistics.median(times[other])
            ratio = statistics.median(b / a for a, b in zip(times["plain"], times[other]))
            results[f"{other}, {shape}"] = {
                "plain_ms": plain,
                "watched_ms": watched,
                "ratio": ratio,
                "bar": bars[shape],
            }
            verdict = "met" if ratio <= bars[shape] else "missed"
            print(
                f"  {title:34} {shape:8} {plain:8.2f} ms {watched:8.2f} ms {ratio:7.3f}x"
                f"  <= {bars[shape]:.2f}x  {verdict}"
            )

    print(
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: GPT-2 124M, bfloat16, a training step",
        flush=True,
    )
    locus.guard()
    compare("guard()", "guard", lambda on: None, {"16x1024": 1.01, "2x256": 1.02})
    bridge = real.start()
    check = session.Session("bench", [])
    check.start()
    check.stop()
    compare("check --real (origins on)", "check", bridge.open_door, {"16x1024": 1.01, "2x256": 1.10})
    print(f"  findings: {check.finding_count()} (none are expected)")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
