"""Built on meta, given memory on the device, filled from a CPU checkpoint."""
import torch
from torch import nn

torch.manual_seed(0)
source = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
state = source.state_dict()

with torch.device("meta"):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
print({p.device.type for p in model.parameters()}, sum(p.numel() for p in model.parameters()))
shape = model(torch.empty(5, 4, device="meta")).shape
model.to_empty(device="cuda")
model.load_state_dict(state)
out = model(torch.ones(5, 4, device="cuda"))
print(shape == out.shape, torch.allclose(out.cpu(), source(torch.ones(5, 4)), atol=1e-6))

with torch.device("meta"):
    lazy = nn.Linear(4, 2)
lazy.load_state_dict({k: v.to("cuda:1") for k, v in nn.Linear(4, 2).state_dict().items()}, assign=True)
print(lazy.weight.device, torch.empty_like(lazy.weight, device="meta").device)
