"""Quantizes weights to bytes in numpy, entropy-codes them by hand, and puts them back on the card."""
import struct
import zlib

import numpy as np
import torch
from torch import nn


def quantize(t: torch.Tensor, bits: int = 8):
    low, high = t.min(), t.max()  # of no dimension, where t is
    scale = (high - low) / (2**bits - 1)
    codes = ((t - low) / scale.clamp(min=1e-12)).round().to(torch.uint8)
    return codes, low.item(), scale.item()


def pack(state: dict) -> bytes:
    out = []
    for name, t in state.items():
        codes, low, scale = quantize(t.detach())
        body = zlib.compress(codes.cpu().numpy().tobytes())
        label = name.encode()
        shape = struct.pack(f"<B{t.dim()}I", t.dim(), *t.shape)
        out.append(struct.pack("<Hff I", len(label), low, scale, len(body)) + label + shape + body)
    return b"".join(out)


def unpack(data: bytes, device) -> dict:
    state, at = {}, 0
    while at < len(data):
        n, low, scale, size = struct.unpack_from("<Hff I", data, at)
        at += struct.calcsize("<Hff I")
        name = data[at : at + n].decode()
        at += n
        (dims,) = struct.unpack_from("<B", data, at)
        shape = struct.unpack_from(f"<{dims}I", data, at + 1) if dims else ()
        at += struct.calcsize(f"<B{dims}I")
        raw = np.frombuffer(zlib.decompress(data[at : at + size]), dtype=np.uint8)
        at += size
        codes = torch.from_numpy(raw.copy()).view(shape)
        state[name] = codes.to(device, torch.float32) * scale + low
    return state


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 6)
        self.out = nn.Linear(6, 9, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("counts", torch.zeros(9))

    def forward(self, ids):
        self.counts += torch.bincount(ids.flatten(), minlength=9)
        return self.out(self.embed(ids).mean(1))


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = Tied()
    with torch.no_grad():
        net.embed.weight.copy_(torch.sin(torch.arange(54.0)).view(9, 6))
    net.to(device)
    assert net.out.weight is net.embed.weight
    ids = (torch.arange(20).view(5, 4) * 3) % 9
    opt = torch.optim.SGD(net.parameters(), 0.5)
    for _ in range(4):
        loss = nn.functional.cross_entropy(net(ids.to(device)), ids[:, 0].to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    packed = pack(net.state_dict())
    print(f"loss {loss.item():.4f}")
    back = unpack(packed, device)
    error = max((back[k] - v).abs().max() for k, v in net.state_dict().items())
    print(f"{error.item() < 0.1}", sorted(back))
    net.load_state_dict(unpack(packed, "cpu"))
    again = nn.functional.cross_entropy(net(ids.to(device)), ids[:, 0].to(device))
    print(abs(again.item() - loss.item()) < 0.2, net.counts.sum().item() > 0)
    order = np.argsort(net.counts.cpu().numpy())[::-1].copy()
    print(net.embed.weight[order[:2]].shape, int(order[0]))  # an array of numpy as the index


main()
