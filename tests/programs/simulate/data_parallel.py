# compare: close
# devices: 2
"""nn.DataParallel: scatter, replicate, gather, in training, with buffers, keyword arguments and an uneven batch."""

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
seen = set()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((1,), 0.5))
        self.fc1 = nn.Linear(10, 20)
        self.fc2 = nn.Linear(20, 3)

    def forward(self, x, shift=None):
        seen.add(str(x.device))
        assert self.scale.device == x.device == self.fc1.weight.device
        hidden = torch.relu(self.fc1(x)) * self.scale
        return self.fc2(hidden if shift is None else hidden + shift)


model = Model().to(device)
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs, targets = torch.randn(30, 10), torch.randint(0, 3, (30,))

for step in range(8):
    batch = slice(0, 30 if step % 2 else 29)  # uneven: one replica gets one row fewer
    x, y = inputs[batch].to(device), targets[batch].to(device)
    out = model(x, shift=torch.ones(len(x), 1, device=device))
    assert out.shape == (len(x), 3) and out.device.type == device.type
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")

assert len(seen) == max(1, torch.cuda.device_count()), seen
state = model.module.state_dict() if isinstance(model, nn.DataParallel) else model.state_dict()
print("state", sorted(state), f"{sum(v.sum().item() for v in state.values()):.4f}")
