"""Trainings that no card has measured yet, three steps from a fresh process: no rule of the model was made from them,
and what a simulated card says of them is no card's word. They need PyTorch alone.

Usage: more_trainings.py [--out FILE] [--traces FOLDER] [--jobs N] [CASE...] On a card, or dry on a machine without one:
`locus run --dry --card h200 more_trainings.py`. `--traces` also writes what the allocator did, call by call.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pathlib
import sys
import time

import more_language as language
import more_pictures as pictures
import more_signals as signals
import torch

TRAININGS = {
    make.__name__: make
    for make in (
        language.decoder_checkpointed, language.decoder_muon, language.decoder_f32, language.sequential_checkpointed,
        language.generation, language.generation_f32, language.translation, language.experts, language.towers,
        language.tables, language.graph, pictures.residual_f16, pictures.residual_f32, pictures.stacked_f32,
        pictures.mobile_bf16, pictures.mobile_f32, pictures.wide_bf16, pictures.dense_f32, pictures.patches_f32,
        pictures.adversaries, pictures.diffusion, pictures.segmentation, signals.films, signals.sound, signals.waves,
        signals.equation,
    )
}  # fmt: skip


def measure(name: str) -> dict[str, object]:
    """Three steps: bytes of the model, and of each step its peak, what was reserved at most, and what stays."""
    torch.manual_seed(0)
    started = time.monotonic()
    step = TRAININGS[name]()
    model = torch.cuda.memory_allocated()
    steps = []
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        steps.append({"peak": peak, "reserved": reserved, "after": torch.cuda.memory_allocated()})
    return {
        "case": name, "model": model, "peak": max(row["peak"] for row in steps),
        "reserved": max(row["reserved"] for row in steps), "steps": steps, "s": round(time.monotonic() - started, 2),
        "torch": torch.__version__, "device": torch.cuda.get_device_name(),
    }  # fmt: skip


def traced(name: str, folder: pathlib.Path | None) -> dict[str, object]:
    """The same, with what the allocator did beside it."""
    if folder is None:
        return measure(name)
    torch.cuda.memory._record_memory_history(max_entries=400_000, context="alloc", stacks="python")
    row = measure(name)
    events = []
    for entry in torch.cuda.memory._snapshot()["device_traces"][0]:
        frames = entry.get("frames", [])
        own = [f"{f['filename'].rsplit('/', 1)[-1]}:{f['line']}" for f in frames if "more_" in f["filename"]]
        call = f"{frames[0]['filename'].rsplit('/', 1)[-1]}:{frames[0]['name']}" if frames else ""
        events.append([entry["action"], entry["size"], entry["addr"], own[0] if own else "", call])
    with gzip.open(folder / f"{name}.json.gz", "wt") as file:
        json.dump(events, file, separators=(",", ":"))
    return row


def main() -> int:
    """A process for each; so many at once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--traces", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("cases", nargs="*", default=list(TRAININGS))
    asked = parser.parse_args()
    if asked.traces:
        asked.traces.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rows, running, waiting = [], {}, list(asked.cases)
    while waiting or running:
        while waiting and len(running) < asked.jobs:
            name = waiting.pop(0)
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reader)
                try:
                    row = traced(name, asked.traces)
                except Exception as error:
                    row = {"case": name, "error": f"{type(error).__name__}: {error}"[:500]}
                os.write(writer, json.dumps(row).encode())
                os._exit(0)
            os.close(writer)
            running[child] = name, reader
        child, _ = os.wait()
        name, reader = running.pop(child)
        with os.fdopen(reader) as file:
            text = file.read()
        rows.append(json.loads(text) if text else {"case": name, "error": "it ended without a word"})
        print(json.dumps(rows[-1]), flush=True)
        if asked.out:
            asked.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return int(any("error" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
