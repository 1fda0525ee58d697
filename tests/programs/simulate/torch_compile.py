# compare: close
# devices: 1
# says: locus: torch.compile runs eagerly on simulated devices
"""torch.compile: the decorated program runs and trains whatever the backend makes of it."""

import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore")
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Without a device there is no need to wait for a C++ compiler: this program is about the device.
backend = "inductor" if device.type == "cuda" else "eager"


@torch.compile(backend=backend)
def activation(x):
    return torch.where(x > 0, x, 0.1 * x).sin()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.fc2(activation(self.fc1(x)))


model = Net().to(device)
compiled = torch.compile(model, backend=backend)
x, y = torch.randn(16, 8).to(device), torch.randn(16, 1).to(device)
optimizer = torch.optim.SGD(compiled.parameters(), lr=0.05)
for step in range(5):
    loss = nn.functional.mse_loss(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")
assert torch.allclose(compiled(x), model(x), atol=1e-5)
assert compiled(x).device.type == device.type
print("parameters", len(list(compiled.parameters())))
