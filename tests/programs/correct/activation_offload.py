"""Saved activations are packed to the host and unpacked in backward; recomputation where asked."""
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
device = torch.device("cuda")
blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3)).to(device)
packed = []


def pack(tensor):
    packed.append(tensor.device.type)
    return tensor.device, tensor.cpu()


def unpack(pair):
    where, tensor = pair
    return tensor.to(where)


x = torch.randn(4, 8, device=device)
with saved_tensors_hooks(pack, unpack):
    h = x
    for block in blocks:
        h = h + block(h)
h.sum().backward()
expected = [p.grad.clone() for p in blocks.parameters()]
blocks.zero_grad()
with torch.autograd.graph.save_on_cpu():
    h = x
    for block in blocks:
        h = h + checkpoint(block, h, use_reentrant=False)
h.sum().backward()
print(all(torch.allclose(a, p.grad, atol=1e-6) for a, p in zip(expected, blocks.parameters())), len(packed) > 0)
