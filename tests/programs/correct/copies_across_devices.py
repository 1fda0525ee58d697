"""copy_, setitem, load_state_dict and `out`: the copies that may cross devices."""
import torch
from torch import nn

host = torch.zeros(3, 4)
gpu0 = torch.arange(12.0, device="cuda:0").view(3, 4)
gpu1 = torch.empty(3, 4, device="cuda:1")
host.copy_(gpu0)
gpu1.copy_(gpu0)
gpu1[0] = torch.tensor([9.0, 9.0, 9.0, 9.0])
host[1:] = gpu1[1:]
gpu0[:, 2] = host[:, 0]
print(host.tolist(), gpu1.sum().item(), gpu0[:, 2].tolist())

torch.manual_seed(0)
left, right = nn.Linear(4, 2).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")
right.load_state_dict(left.state_dict())
with torch.no_grad():
    for a, b in zip(left.parameters(), right.parameters()):
        b.copy_(a)
        a.data.copy_(b.data.cpu())
print(torch.equal(left.weight.cpu(), right.weight.cpu()), torch.tensor(gpu0.tolist()).device, gpu0.to("cpu").to("cuda:1").device)
