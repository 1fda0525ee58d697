"""What Locus costs on a real GPU: GPT-2 124M in bfloat16, plain and watched, alternating in one process.

    python bench/gpu.py [--json FILE] [--parts | --streams]

Needs a GPU. Prints ratios; the bars are those of docs/real-gpus.md. --streams: what it costs to follow streams, alone.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

WARM_UP = 5  # pairs


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


def make_step(batch: int, length: int, fed: bool = False, layers: int = 12):
    """A step on one batch, or on the one that it is given."""
    torch.manual_seed(0)
    model = GPT(layers=layers).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    same = None if fed else torch.randint(0, 50304, (batch, length), device="cuda")

    def step(ids=same):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def make_prefetching_step(batch: int, length: int, layers: int = 12):
    """The same, and the next batch is copied on a stream of its own meanwhile."""
    step, side = make_step(batch, length, fed=True, layers=layers), torch.cuda.Stream()
    host = torch.randint(0, 50304, (batch, length)).pin_memory()
    following: list[torch.Tensor] = []

    def prefetch():
        with torch.cuda.stream(side):
            following.append(host.to("cuda", non_blocking=True))

    def fed_step():
        if not following:
            prefetch()
        torch.cuda.current_stream().wait_stream(side)
        ids = following.pop()
        ids.record_stream(torch.cuda.current_stream())
        prefetch()
        step(ids)

    return fed_step


def time_of(step, steps: int) -> float:
    """Milliseconds a step, of so many in a row: nobody waits for the card between them."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps * 1e3


def measure(step, switch, pairs: int, steps: int) -> tuple[list[float], list[float]]:
    """Milliseconds a step, plain and watched, in pairs; which comes first is drawn anew for each pair."""
    plain: list[float] = []
    watched: list[float] = []
    order = random.Random(0)
    for number in range(-WARM_UP, pairs):
        for on in order.sample((False, True), 2):
            switch(on)
            spent = time_of(step, steps)
            switch(False)
            if number >= 0:
                (watched if on else plain).append(spent)
    return plain, watched


def guard_switch():
    """guard() can't be taken back; its only part that is there while nothing is raised can be switched off."""
    import locus

    locus.guard()
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return lambda on: None
    tool = next(number for number in range(6) if monitoring.get_tool(number) == "locus")
    return lambda on: monitoring.set_events(tool, monitoring.events.RAISE if on else 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--pairs", type=int, default=240, help="pairs of measurements (default: 240)")
    parser.add_argument("--parts", action="store_true", help="also what each part of the check costs")
    parser.add_argument("--streams", action="store_true", help="a program with two streams: followed, and not followed")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench/gpu.py needs a GPU; this machine has none", file=sys.stderr)
        return 2
    shapes = {"2x256": make_step(2, 256)}
    if not arguments.streams:
        shapes["16x1024"] = make_step(16, 1024)
    results = {}
    gc.collect()
    gc.freeze()  # what the libraries have loaded is not looked through again and again while we measure

    def compare(title: str, switch, bars: dict[str, float]) -> None:
        for shape, bar in bars.items():
            # Where the card is the slower one, the host must run ahead of it, as in a training.
            pairs, steps = (arguments.pairs, 1) if shape == "2x256" else (arguments.pairs // 8, 6)
            plain, watched = measure(shapes[shape], switch, pairs, steps)
            ratio = statistics.median(watched) / statistics.median(plain)
            ratios = sorted(b / a for a, b in zip(plain, watched))
            low, high = ratios[len(ratios) // 4], ratios[len(ratios) * 3 // 4]
            results[f"{title}, {shape}"] = {
                "plain_ms": statistics.median(plain),
                "watched_ms": statistics.median(watched),
                "ratio": ratio,
                "quartiles": [low, high],
                "bar": bar or None,
            }
            verdict = "" if not bar else f"  <= {bar:.2f}x  {'met' if ratio <= bar else 'missed'}"
            print(
                f"  {title:28} {shape:8} {statistics.median(plain):7.2f} ms {statistics.median(watched):7.2f} ms"
                f" {ratio:6.3f}x ({low:.3f} to {high:.3f}){verdict}",
                flush=True,
            )

    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: GPT-2 124M, bfloat16, a training step")
    if arguments.streams:
        compare_streams(compare, shapes)
        return finish(arguments, results)
    compare("nothing, twice", lambda on: None, {"2x256": 0})
    compare("guard()", guard_switch(), {"16x1024": 1.01, "2x256": 1.02})
    bridge, check = start_check()
    compare("check --real", bridge.open_door, {"16x1024": 1.01, "2x256": 1.10})
    if arguments.parts:
        compare("  its memory by line alone", bridge.follow_memory, {"2x256": 0})
    before = bridge.calls_seen()
    bridge.open_door(True)
    shapes["2x256"]()
    bridge.open_door(False)
    print(f"  operator calls seen in a step: {bridge.calls_seen() - before}; findings: {check.finding_count()}")
    return finish(arguments, results)


def start_check():
    """The bridge, and a check whose door is shut."""
    from locus.process import session
    from locus.watch import real

    bridge = real.start()
    check = session.Session("bench", [])
    check.start()
    check.stop()
    return bridge, check


def compare_streams(compare, shapes: dict) -> None:
    """A program with two streams: while they are followed, and after nobody follows them any more."""
    bridge, check = start_check()
    compare("one stream", bridge.open_door, {"2x256": 1.10})
    bridge.open_door(True)
    shapes["2x256"] = make_prefetching_step(2, 256)
    bridge.open_door(False)
    compare("nothing, twice", lambda on: None, {"2x256": 0})
    compare("two streams, followed", bridge.open_door, {"2x256": 1.10})
    if not bridge.CardOrder.is_followed():
        print("  streams were not followed to the end", flush=True)
    bridge.CardOrder.stop()
    compare("two streams, not followed", bridge.open_door, {"2x256": 0})
    print(f"  findings: {check.finding_count()}")


def finish(arguments: argparse.Namespace, results: dict) -> int:
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
