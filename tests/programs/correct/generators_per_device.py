"""A generator for each device, each used where it belongs."""
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, random_split

devices = ["cpu", "cuda:0", "cuda:1"]
generators = {d: torch.Generator(device=d).manual_seed(17) for d in devices}


def draw(device):
    g = generators[device]
    x = torch.randn(4, generator=g, device=device)
    x = x + torch.empty(4, device=device).uniform_(generator=g)
    i = torch.multinomial(torch.ones(6, device=device), 2, generator=g)
    return x, i, torch.randperm(5, generator=g, device=device)


for device in devices:
    first = draw(device)
    generators[device].manual_seed(17)
    again = draw(device)
    print(device, all(torch.equal(a, b) and str(a.device) == device for a, b in zip(first, again)))

data = TensorDataset(torch.arange(10.0))
train, held_out = random_split(data, [7, 3], generator=torch.Generator().manual_seed(1))
loader = DataLoader(train, batch_size=3, sampler=RandomSampler(train, generator=torch.Generator().manual_seed(2)))
print(sum(x.cuda().sum().item() for (x,) in loader) + sum(float(x) for (x,) in held_out))
