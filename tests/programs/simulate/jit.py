# compare: close
# devices: 1
"""TorchScript, traced and scripted: runs, trains, freezes, is saved and loaded onto another device."""

import io
import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore", category=DeprecationWarning)
warnings.filterwarnings("ignore", category=FutureWarning)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, flip: bool = False) -> torch.Tensor:
        positions = torch.arange(x.size(0), device=x.device).unsqueeze(1)
        if flip:
            return self.right(x) + positions
        return self.left(x) * (positions + 1)


@torch.jit.script
def clip(x: torch.Tensor, low: float) -> torch.Tensor:
    while bool(x.min() < low):
        x = x * 0.5
    return x


@torch.jit.script
def chosen(x: torch.Tensor, rows: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[rows] = new
    return x[rows][:, x[0] < 0.5] + x[:, rows].sum()


model = Gate().to(device)
x = torch.randn(3, 4).to(device)
scripted, traced = torch.jit.script(model), torch.jit.trace(model, (x,))
for _ in range(3):  # the profiling executor specialises after the first runs
    assert torch.allclose(scripted(x), model(x)) and torch.allclose(traced(x), model(x))
print(f"scripted {scripted(x, True).sum().item():.5f} traced {traced(x).sum().item():.5f} clip {clip(x, -0.3).min().item():.5f}")
rows, new = torch.tensor([2, 0]).to(device), torch.full((2, 4), 0.25).to(device)
indexed = torch.jit.trace(lambda x, rows: x[rows], (x, rows))
for _ in range(3):
    print(f"indexed {chosen(x, rows, new).sum().item():.5f} {indexed(x, rows).sum().item():.5f}")

optimizer = torch.optim.SGD(scripted.parameters(), lr=0.01)
for step in range(4):
    loss = scripted(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")
assert next(scripted.parameters()).device.type == device.type

buffer = io.BytesIO()
torch.jit.save(scripted, buffer)
for target in (None, "cpu", device):
    buffer.seek(0)
    loaded = torch.jit.load(buffer, map_location=target)
    wanted = device if target is None else torch.device(target)
    parameter = next(loaded.parameters())
    assert parameter.device.type == wanted.type, (parameter.device, wanted)
    print(f"loaded {loaded(x.to(wanted)).sum().item():.5f}")
frozen = torch.jit.freeze(scripted.eval())
print(f"frozen {frozen(x).sum().item():.5f}")
