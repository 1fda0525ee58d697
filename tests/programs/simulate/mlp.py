# compare: exact
# devices: 1
"""A plain multilayer perceptron, the way the first tutorial writes it."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()

torch.manual_seed(0)
device = torch.device(args.device)

inputs = torch.randn(256, 20)
targets = (inputs[:, :3].sum(dim=1) > 0).long()
inputs, targets = inputs.to(device), targets.to(device)

model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

for step in range(args.steps):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"step {step:3d} loss {loss.item():.6f}")

model.eval()
with torch.no_grad():
    predictions = model(inputs).argmax(dim=1)
accuracy = (predictions == targets).float().mean().item()
assert all(p.device.type == device.type for p in model.parameters())
assert all(p.grad.device == p.device for p in model.parameters())
print(f"accuracy {accuracy:.4f}")
