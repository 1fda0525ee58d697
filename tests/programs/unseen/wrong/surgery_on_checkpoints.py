"""Pretrain on the second card, save, take the encoder over into another model on the first one."""
import io
import os
import tempfile

import torch
import torch.nn as nn


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 4))
        self.decoder = nn.Linear(4, 8)

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Probe(nn.Module):
    def __init__(self, encoder, scale):
        super().__init__()
        self.encoder = encoder
        self.scale = scale
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.encoder(x) / self.scale)  # RAISES: 1


def pretrain(path, device):
    model = AutoEncoder().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = data()[0].to(device)
    for _ in range(10):
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        codes = model.encoder(x)
    torch.save(
        {"model": model.state_dict(), "scale": codes.std(0), "codes": codes, "step": 10},
        path,
    )
    return loss.item()


def data():
    x = torch.sin(torch.arange(160.0) * 0.45).view(20, 8)
    return x, (x.sum(1) > 0).long()


def finetune(path, device):
    ckpt = torch.load(path)  # BUG 1: any culprit=self.scale
    # FIX: ckpt = torch.load(path, map_location=device)
    body = AutoEncoder()
    body.load_state_dict(ckpt["model"])
    probe = Probe(body.encoder, ckpt["scale"]).to(device)
    x, y = data()
    x, y = x.to(device), y.to(device)
    opt = torch.optim.SGD(probe.head.parameters(), lr=0.5)
    snapshots = []
    for step in range(8):
        loss = nn.functional.cross_entropy(probe(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 3:
            buffer = io.BytesIO()
            torch.save(probe.head.state_dict(), buffer)
            buffer.seek(0)
            snapshots.append(torch.load(buffer, map_location="cpu"))
    return probe, snapshots, loss.item()


def average(snapshots, module):
    """The average of several state dicts and how far it is from the module."""
    mean = {k: torch.stack([s[k] for s in snapshots]).mean(0) for k in snapshots[0]}
    far = 0.0
    for k, v in module.state_dict().items():
        far += (v.cpu() - mean[k]).abs().sum().item()
    return mean, far


def main():
    torch.manual_seed(0)
    first, second = "cuda:0", f"cuda:{torch.cuda.device_count() - 1}"
    path = os.path.join(tempfile.mkdtemp(), "auto.pt")
    print(f"pretrained {pretrain(path, second):.4f}")
    probe, snapshots, loss = finetune(path, first)
    print(f"finetuned {loss:.4f}")
    mean, far = average(snapshots, probe.head)
    print(f"distance {far:.4f}")
    with torch.no_grad():
        x, y = data()
        logits = nn.functional.linear(probe.encoder(x.to(first)), mean["weight"], mean["bias"])  # BUG: any culprit=mean["weight"] # RAISES: 2
        # FIX: logits = nn.functional.linear(probe.encoder(x.to(first)), mean["weight"].to(first), mean["bias"].to(first))
        print(f"accuracy {(logits.argmax(1).cpu() == y).float().mean().item():.2f}")
    os.remove(path)


main()
