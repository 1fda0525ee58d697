# compare: close
# devices: 2
"""Save half-way, load, go on: the resumed run must equal the run that was never stopped, generators included."""

import os
import tempfile

import torch
from torch import nn

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
other = torch.device("cuda:1" if torch.cuda.device_count() > 1 else "cpu")
data = torch.linspace(-1, 1, 8 * 32).view(32, 8)


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def train(model, optimizer, scheduler, steps):
    losses = []
    for _ in range(steps):
        noise = torch.randn(32, 8, device=device) * 1e-9  # moves the device's generator on
        loss = (model(data.to(device) + noise) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(round(loss.item(), 5))
    return losses


model, optimizer, scheduler = build()
straight = train(model, optimizer, scheduler, 8)
drawn_straight = torch.rand(3, device=device).cpu()

model, optimizer, scheduler = build()
losses = train(model, optimizer, scheduler, 4)
path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
torch.save({
    "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
    "rng": torch.get_rng_state(), "cuda_rng": torch.cuda.get_rng_state_all(), "best": torch.tensor(losses[-1], device=device),
}, path)
torch.rand(100, device=device), torch.rand(100)  # both generators leave the saved state

checkpoint = torch.load(path)
assert checkpoint["best"].device == device
assert checkpoint["model"]["0.weight"].device == device
assert all(s.device.type == "cpu" for s in checkpoint["cuda_rng"])
model, optimizer, scheduler = build()
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
scheduler.load_state_dict(checkpoint["scheduler"])
torch.set_rng_state(checkpoint["rng"])
torch.cuda.set_rng_state_all(checkpoint["cuda_rng"])
losses += train(model, optimizer, scheduler, 4)
drawn = torch.rand(3, device=device).cpu()

print("straight", straight)
print("resumed equals straight", losses == straight, torch.equal(drawn, drawn_straight))
state = next(iter(optimizer.state.values()))
assert state["exp_avg"].device == device and state["max_exp_avg_sq"].device == device

on_host = torch.load(path, map_location="cpu")
assert on_host["model"]["0.weight"].device.type == "cpu"
on_other = torch.load(path, map_location=other)
assert on_other["model"]["0.weight"].device == other
by_name = torch.load(path, map_location={"cuda:0": str(other)})
assert by_name["model"]["0.weight"].device == other
by_function = torch.load(path, map_location=lambda storage, location: storage)
assert by_function["model"]["0.weight"].device.type == "cpu"
lazily = torch.load(path, map_location="cpu", mmap=True)
same = [torch.equal(v.cpu(), on_host["model"][k]) for where in (on_other, by_name, by_function, lazily) for k, v in where["model"].items()]
print("every map_location has the same values", all(same), len(same))
