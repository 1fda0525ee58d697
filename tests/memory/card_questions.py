"""Questions about memory that no card has answered yet: single operators of libraries, call by call, pinned memory's
statistics, pools, the stacks of a memory history. Each in a process of its own.

Usage: card_questions.py --out FILE [--jobs N]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Callable

import operators
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

MISSED = [
    "conv3x3_f32",
    "conv7x7s2_f16",
    "convT_f32",
    "convT_f16",
    "lstm_f32",
    "lstm_bf16",
    "fft",
    "ctc",
    "svd",
    "solve",
    "cholesky",
]


def rand(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A leaf."""
    return torch.randn(*size, device="cuda", dtype=dtype).requires_grad_()


def square(n: int, batch: int = 0) -> torch.Tensor:
    """Positive definite."""
    shape = (batch, n, n) if batch else (n, n)
    x = torch.randn(shape, device="cuda")
    return (x @ x.mT + n * torch.eye(n, device="cuda")).requires_grad_()


def packed(make: Callable[..., nn.Module]) -> operators.Case:
    """A recurrent network over sequences of unlike length."""
    m, x = make(256, 512, 2).cuda(), rand(100, 32, 256)
    lengths = torch.arange(100, 4, -3)[:32]
    call = lambda x, *_: m(nn.utils.rnn.pack_padded_sequence(x, lengths))[0].data  # noqa: E731
    return [x, *m.parameters()], call


def projected() -> operators.Case:
    """An LSTM with a projection."""
    m, x = nn.LSTM(256, 512, 2, proj_size=128).cuda(), rand(100, 32, 256)
    return [x, *m.parameters()], lambda x, *_: m(x)[0]


def survey() -> dict[str, Callable[[], operators.Case]]:
    """Operators of libraries that are not modelled, by name and size."""
    lin, fft = torch.linalg, torch.fft
    found: dict[str, Callable[[], operators.Case]] = {name: operators.cases()[name] for name in MISSED}
    for n in (64, 256, 1000, 2048):
        found[f"cholesky_{n}"] = lambda n=n: ([square(n)], lin.cholesky)
        found[f"inv_{n}"] = lambda n=n: ([square(n)], lin.inv)
        found[f"solve_{n}"] = lambda n=n: ([square(n), rand(n, 8)], lin.solve)
        found[f"qr_{n}"] = lambda n=n: ([square(n)], lambda x: lin.qr(x)[0])
        found[f"eigh_{n}"] = lambda n=n: ([square(n)], lambda x: lin.eigh(x)[0])
        found[f"svd_{n}"] = lambda n=n: ([square(n)], lambda x: lin.svd(x)[1])
        found[f"det_{n}"] = lambda n=n: ([square(n)], lin.slogdet)
    for n in (16, 64, 256):
        found[f"cholesky_16x{n}"] = lambda n=n: ([square(n, 16)], lin.cholesky)
        found[f"inv_16x{n}"] = lambda n=n: ([square(n, 16)], lin.inv)
        found[f"eigh_16x{n}"] = lambda n=n: ([square(n, 16)], lambda x: lin.eigh(x)[0])
        found[f"svd_16x{n}"] = lambda n=n: ([square(n, 16)], lambda x: lin.svd(x)[1])
        found[f"qr_16x{n}"] = lambda n=n: ([square(n, 16)], lambda x: lin.qr(x)[0])
    for n in (256, 1000, 1021, 4096):
        found[f"rfft_64x{n}"] = lambda n=n: ([rand(64, n)], lambda x: fft.rfft(x).abs())
        found[f"fft_64x{n}"] = lambda n=n: ([rand(64, n, dtype=torch.complex64)], lambda x: fft.fft(x).abs())
        found[f"irfft_64x{n}"] = lambda n=n: ([rand(64, n, dtype=torch.complex64)], lambda x: fft.irfft(x))
    for n in (100, 128, 256, 512):
        found[f"rfft2_16x{n}"] = lambda n=n: ([rand(16, n, n)], lambda x: fft.rfft2(x).abs())
        found[f"irfft2_16x{n}"] = lambda n=n: (
            [rand(16, n, n // 2 + 1, dtype=torch.complex64)],
            lambda x: fft.irfft2(x),
        )
        found[f"fft2_16x{n}"] = lambda n=n: ([rand(16, n, n, dtype=torch.complex64)], lambda x: fft.fft2(x).abs())
    found["lstm_packed"], found["gru_packed"] = (lambda: packed(nn.LSTM)), (lambda: packed(nn.GRU))
    found["lstm_projected"] = projected
    found["stft"] = lambda: (
        [rand(16, 64000), torch.ones(1024, device="cuda")],
        lambda x, window: torch.stft(x, 1024, 256, window=window, return_complex=True).abs(),
    )  # fmt: skip

    def sparse(x: torch.Tensor) -> torch.Tensor:
        made = torch.sparse_coo_tensor(
            torch.randint(0, 10000, (2, 100_000), device="cuda"), torch.ones(100_000, device="cuda"), (10000, 10000)
        )
        return torch.sparse.mm(made.coalesce(), x)

    found["sparse_mm"] = lambda: ([rand(10000, 64)], sparse)
    found["csr_mm"] = lambda: ([rand(10000, 64)], lambda x: torch.eye(10000, device="cuda").to_sparse_csr() @ x)
    return found


def events() -> list[list[object]]:
    """What the allocator did since the history began."""
    return [
        [e["action"], e["size"]]
        for e in torch.cuda.memory._snapshot()["device_traces"][0]
        if e["action"] in ("alloc", "free_requested")
    ]


def operator(name: str) -> dict[str, object]:
    """The allocator's calls of two turns, forward and backward."""
    torch.manual_seed(0)
    operands, call = survey()[name]()
    row: dict[str, object] = {}
    for turn in ("first", "second"):
        for operand in operands:
            operand.grad = None
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.memory._record_memory_history(max_entries=100_000, context=None)
        result = call(*operands)
        torch.cuda.synchronize()
        row[f"{turn}_forward"] = events()
        row[f"{turn}_forward_peak"], row[f"{turn}_forward_stays"] = (
            torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before
        )  # fmt: skip
        kept = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if kept and kept[0].requires_grad:
            grad = torch.ones_like(kept[0])
            torch.cuda.memory._record_memory_history(enabled=None)
            torch.cuda.memory._record_memory_history(max_entries=100_000, context=None)
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            kept[0].backward(grad)
            torch.cuda.synchronize()
            row[f"{turn}_backward"] = events()
            row[f"{turn}_backward_peak"], row[f"{turn}_backward_stays"] = (
                torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before
            )  # fmt: skip
            del grad
        torch.cuda.memory._record_memory_history(enabled=None)
        del result, kept
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        result = call(*operands)
        kept = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if kept and kept[0].requires_grad:
            kept[0].backward(torch.ones_like(kept[0]))
        torch.cuda.synchronize()
    row["kernels"] = [event.name[:120] for event in profile.events()][:60]
    return row


def pinned() -> dict[str, object]:
    """torch.cuda.host_memory_stats() as pinned tensors come and go."""
    stats = torch.cuda.memory.host_memory_stats
    rows: dict[str, object] = {"before": dict(stats())}
    x = torch.empty(1000, pin_memory=True)
    rows["1000 floats"] = dict(stats())
    y = torch.empty(1 << 20, pin_memory=True)
    z = torch.empty((5 << 20) + 3, dtype=torch.uint8).pin_memory()
    rows["4 MiB and 5 MiB and 3"] = dict(stats())
    del y
    rows["4 MiB gone"] = dict(stats())
    w = torch.empty(1 << 19, pin_memory=True)
    rows["2 MiB again"] = dict(stats())
    v = torch.empty(1 << 20, pin_memory=True)
    rows["4 MiB again"] = dict(stats())
    device = v.to("cuda", non_blocking=True)
    del v, z
    u = torch.empty(1 << 20, pin_memory=True)
    rows["used by a stream, 4 MiB again"] = dict(stats())
    torch.cuda.synchronize()
    torch.cuda.memory.reset_peak_host_memory_stats()
    rows["peaks reset"] = dict(stats())
    torch.cuda.memory.reset_accumulated_host_memory_stats()
    rows["accumulated reset"] = dict(stats())
    del u, w, x, device
    torch._C._host_emptyCache()
    rows["emptied"] = dict(stats())
    return rows


def pools() -> dict[str, object]:
    """What pools of memory hold as tensors come and go."""
    rows: dict[str, object] = {}

    def say(word: str) -> None:
        segments = [
            [s["segment_pool_id"], s["total_size"], s["allocated_size"], [[b["size"], b["state"]] for b in s["blocks"]]]
            for s in torch.cuda.memory_snapshot()
        ]
        rows[word] = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), segments]

    def use(pool: torch.cuda.MemPool) -> int | None:
        return pool.use_count() if hasattr(pool, "use_count") else None

    pool = torch.cuda.MemPool()
    rows["id"], rows["count"] = list(pool.id), use(pool)
    say("made")
    with torch.cuda.use_mem_pool(pool):
        rows["count inside"] = use(pool)
        x = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
        small = torch.empty(100, device="cuda")
        say("inside")
    outside = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    say("outside")
    rows["snapshot of it"] = [[s["total_size"], s["allocated_size"]] for s in pool.snapshot()]
    del x
    say("one gone")
    again = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    say("another outside")
    torch.cuda.empty_cache()
    say("emptied")
    with torch.cuda.use_mem_pool(pool):
        y = torch.empty(2 << 20, dtype=torch.uint8, device="cuda")
        say("inside again")
    del small, y
    rows["count at the end"] = use(pool)
    del pool
    say("pool gone")
    torch.cuda.empty_cache()
    say("all emptied")
    other = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(other):
        kept = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    del other
    say("pool gone, its tensor not")
    torch.cuda.empty_cache()
    say("and emptied")
    del kept
    say("tensor gone")
    torch.cuda.empty_cache()
    say("emptied at last")
    rows["sizes"] = [outside.numel(), again.numel()]
    return rows


def stacks() -> dict[str, object]:
    """Frames of a memory history with C++."""
    rows: dict[str, object] = {}
    for kind in ("python", "all"):
        torch.cuda.memory._record_memory_history(stacks=kind)
        x = torch.randn(64, 64, device="cuda", requires_grad=True)
        (x @ x).sum().backward()
        made = torch.cuda.memory._snapshot()
        rows[kind] = made["device_traces"][0][:12]
        rows[f"{kind} keys"] = sorted(made)
        rows[f"{kind} segments"] = made["segments"][:2]
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.empty_cache()
    rows["settings"] = made.get("allocator_settings")
    rows["stats"] = {k: v for k, v in torch.cuda.memory_stats().items()}
    return rows


def answer(question: str) -> dict[str, object]:
    """One of them."""
    others: dict[str, Callable[[], dict[str, object]]] = {"pinned": pinned, "pools": pools, "stacks": stacks}
    try:
        return {"question": question, **(others[question]() if question in others else operator(question))}
    except Exception as error:
        return {"question": question, "error": f"{type(error).__name__}: {error}"[:1000]}


def main() -> None:
    """So many at once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=8)
    asked = parser.parse_args()
    waiting, running = ["pinned", "pools", "stacks", *survey()], {}
    while waiting or running:
        while waiting and len(running) < asked.jobs:
            question = waiting.pop(0)
            part = asked.out.with_name(f"{asked.out.name}.{question}")
            child = os.fork()
            if child == 0:
                part.write_text(json.dumps(answer(question), default=str) + "\n")
                os._exit(0)
            running[child] = part
        child, _ = os.wait()
        part = running.pop(child)
        with asked.out.open("a") as file:
            file.write(part.read_text() if part.exists() else f'{{"question": "{part.name}", "error": "no word"}}\n')
        part.unlink(missing_ok=True)
    print(sum(1 for _ in asked.out.open()), "answers")


if __name__ == "__main__":
    sys.exit(main())
