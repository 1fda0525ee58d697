# compare: none (dropout draws from the device's generator)
# devices: 1
"""Dropout in all its shapes: it must drop at the asked rate, repeat under a seed and vanish in eval."""

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.LeakyReLU(0.1), nn.Dropout2d(0.2),
    nn.Conv2d(8, 8, 3, padding=1), nn.ELU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(8 * 64, 4),
).to(device)
images = torch.randn(32, 3, 8, 8).to(device)
labels = (torch.arange(32) % 4).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

first = last = None
for _ in range(25):
    optimizer.zero_grad(set_to_none=True)
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    last = loss.item()
    first = last if first is None else first
print("learned", last < first)

kept = (nn.functional.dropout(torch.ones(100_000, device=device), 0.3) != 0).float().mean().item()
print("kept about 70 %", abs(kept - 0.7) < 0.02)

torch.manual_seed(7)
one = model(images)
torch.manual_seed(7)
two = model(images)
print("a seed repeats", torch.equal(one, two))
print("the next draw differs", not torch.equal(two, model(images)))

model.eval()
print("eval does not draw", torch.equal(model(images), model(images)))

inplace = torch.ones(1000, device=device)
nn.functional.dropout(inplace, 0.5, inplace=True)
print("in place", bool(((inplace == 0) | (inplace == 2)).all()))
alpha = nn.AlphaDropout(0.2).to(device)(torch.randn(1000).to(device))
print("alpha dropout", alpha.shape[0], bool(alpha.isfinite().all()))
