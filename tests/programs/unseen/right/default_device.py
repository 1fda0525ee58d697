# torch.set_default_device, and the context manager form
import torch
from torch import nn

torch.manual_seed(0)
if torch.cuda.is_available():
    torch.set_default_device("cuda")

model = nn.Linear(3, 2)                 # made on the default device
x = torch.arange(6.0).view(2, 3)
y = model(x) + torch.ones(2)

with torch.device("cpu"):
    table = torch.arange(8)             # host table
    lengths = torch.tensor([3, 5])
    small = nn.Linear(2, 1)

host = small(y.detach().cpu())
rows = x[torch.tensor([1, 0])]
lens = lengths.to(y.device) + 1
idx = table[lengths]
torch.set_default_device("cpu")
z = torch.zeros(2, 2) + y.cpu()
same = torch.as_tensor([1.0, 2.0], device=y.device) * y
print(tuple(host.shape), rows.sum().item(), lens.tolist(), idx.tolist(), z.device, same.device.type == y.device.type)
