# compare: exact
# devices: 2
"""torch.set_default_device and `with device:`: factories, modules, as_tensor, and what they do not move."""

import numpy
import torch
from torch import nn

cuda = torch.cuda.is_available()
device = torch.device("cuda:0" if cuda else "cpu")
other = torch.device("cuda:1" if torch.cuda.device_count() > 1 else "cpu")

torch.set_default_device(device)
assert torch.get_default_device() == device
for tensor in (
    torch.zeros(2), torch.arange(3), torch.tensor([1.0]), torch.full((2,), 3.0), torch.eye(2), torch.linspace(0, 1, 3),
    torch.randperm(4), torch.as_tensor([1, 2]), torch.empty(1), torch.ones_like(torch.zeros(2)), torch.tril_indices(3, 3),
    torch.hann_window(4),
):
    assert tensor.device == device, tensor
assert torch.from_numpy(numpy.ones(2)).device.type == "cpu"  # shares the array's memory, so it cannot move
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
assert all(t.device == device for t in list(model.parameters()) + list(model.buffers()))

with torch.device(other):
    assert torch.zeros(1).device == other and nn.Linear(1, 1).weight.device == other
    with torch.device("cpu"):
        assert torch.zeros(1).device.type == "cpu"
assert torch.zeros(1).device == device
with torch.device("meta"):
    shell = nn.Linear(4, 4)
shell = shell.to_empty(device=device)
assert shell.weight.device == device

nn.init.constant_(model[0].weight, 0.1)
nn.init.eye_(model[2].weight)
for parameter in (model[0].bias, model[2].bias):
    nn.init.zeros_(parameter)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 32).view(8, 4)
for step in range(5):
    loss = (model(x) - torch.arange(8.0).unsqueeze(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
torch.set_default_device(None)
assert torch.zeros(1).device.type == "cpu"

torch.set_default_dtype(torch.float64)
print(torch.ones(1, device=device).dtype, torch.tensor([1.5], device=device).dtype)
