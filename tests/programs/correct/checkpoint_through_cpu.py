"""Saved from the GPU, loaded on the CPU, put into a GPU model: load_state_dict copies."""
import io

import torch
from torch import nn


def build(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).to("cuda:0")
    return model, torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)


def step(model, optimizer, x):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return round(loss.item(), 5)


x = torch.linspace(-1, 1, 40).view(8, 5).cuda()
model, optimizer = build(0)
step(model, optimizer, x)
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}, file)
expected = [step(model, optimizer, x) for _ in range(2)]

file.seek(0)
checkpoint = torch.load(file, map_location="cpu", weights_only=True)
model, optimizer = build(1)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])  # casts the state to where its parameters are
print({str(v.device) for v in checkpoint["model"].values()}, [step(model, optimizer, x) for _ in range(2)] == expected)
file.seek(0)
print({str(v.device) for v in torch.load(file, map_location={"cuda:0": "cuda:1"})["model"].values()})
