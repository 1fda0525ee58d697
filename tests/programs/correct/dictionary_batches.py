"""Nested batches moved by a recursive helper; what is not a tensor stays as it is."""
from collections import namedtuple
from dataclasses import dataclass, fields, is_dataclass, replace

import torch
from torch import nn
from torch.utils.data import DataLoader, default_collate

Target = namedtuple("Target", "label weight")


@dataclass
class Batch:
    inputs: dict
    target: Target
    names: list


def move(thing, device):
    if hasattr(thing, "to"):
        return thing.to(device)
    if isinstance(thing, dict):
        return {k: move(v, device) for k, v in thing.items()}
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(move(v, device) for v in thing))
    if isinstance(thing, (list, tuple)):
        return type(thing)(move(v, device) for v in thing)
    if is_dataclass(thing):
        return replace(thing, **{f.name: move(getattr(thing, f.name), device) for f in fields(thing)})
    return thing


def collate(samples):
    inputs, labels, weights, names = zip(*samples)
    return Batch(default_collate(list(inputs)), Target(torch.tensor(labels), torch.tensor(weights)), list(names))


torch.manual_seed(0)
samples = [({"a": torch.randn(3), "b": {"c": torch.randn(2)}}, i % 2, 1.0 + i, f"sample{i}") for i in range(6)]
model = nn.Linear(5, 2).to("cuda")
for batch in DataLoader(samples, batch_size=3, collate_fn=collate):
    batch = move(batch, "cuda")
    logits = model(torch.cat([batch.inputs["a"], batch.inputs["b"]["c"]], dim=1))
    loss = (nn.functional.cross_entropy(logits, batch.target.label, reduction="none") * batch.target.weight).mean()
    loss.backward()
    print(batch.names, round(loss.item(), 4))
