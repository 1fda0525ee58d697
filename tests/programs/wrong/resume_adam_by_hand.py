"""Resumes a run whose checkpoint was written for a CPU, without going through load_state_dict."""

import io

import torch
from torch import nn


def save(model, optimizer):
    buffer = io.BytesIO()
    moments = [
        {k: v.detach().cpu() if torch.is_tensor(v) else v for k, v in optimizer.state[p].items()}
        for p in model.parameters()
    ]
    torch.save({"model": {k: v.cpu() for k, v in model.state_dict().items()}, "moments": moments}, buffer)
    buffer.seek(0)
    return buffer


def resume(model, optimizer, buffer):
    checkpoint = torch.load(buffer, map_location="cpu")  # ALSO: 1
    model.load_state_dict(checkpoint["model"])
    for p, moments in zip(model.parameters(), checkpoint["moments"]):
        optimizer.state[p] = moments  # BUG: optimizer-state culprit=optimizer.state[model.0.weight]["exp_avg"]
        # FIX: optimizer.state[p] = {k: v.to(p.device) if k != "step" else v for k, v in moments.items()}


def steps(model, optimizer, x, count):
    for _ in range(count):
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # RAISES: 1
    return loss.item()


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


x = torch.linspace(-1, 1, 32).view(8, 4).cuda()
model, optimizer = build()
print("before", round(steps(model, optimizer, x, 4), 4))
checkpoint = save(model, optimizer)
model, optimizer = build()
resume(model, optimizer, checkpoint)
print("after", round(steps(model, optimizer, x, 4), 4))
